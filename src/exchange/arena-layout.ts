import { SCRATCH_BYTES } from '../collectives/collective-call';
import type { DenseArray } from '../collectives/dense-array';
import { type Compression, valueFormatOf } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import { LARGEST_DENSITY } from '../compression/choose-sparsity';
import { sentCount, travelsDense } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import { GradringError } from '../errors';
import type { Pointer } from '../kernels/kernels';

/** The most that one arena may hold: what 32-bit pointers reach. */
export const MAX_ARENA_BYTES = 2 ** 32;

/** Room for the decoders of some 200 ranks. */
const MAX_DECODER_BYTES = 16 * 2 ** 20;

/** A variable whose gradient is exchanged. */
export interface VariableShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A tensor of an exchange and its state, all in the memory of its arena, float32, 16-byte aligned. */
export interface ExchangedTensor {
  readonly elementCount: number;
  /** Whether the compression's rules send it whole at any density. */
  readonly dense: boolean;
  /**
   * The local mean gradient before a step, the update after it. An arena's follow each other without a gap but for
   * alignment.
   */
  readonly gradient: Pointer;
  /** The paper's u, or the momentum of a dense tensor. */
  readonly momentum: Pointer;
  /** The paper's v; of a dense tensor what rounding to the value format has lost. */
  readonly residual: Pointer;
}

/** Where everything of an arena lies in its memory. */
export interface ArenaLayout {
  readonly tensors: readonly ExchangedTensor[];
  /** From the first tensor's gradient to the end of the last one's. */
  readonly gradients: DenseArray;
  /** Room for the entries that are sent of all its tensors. */
  readonly indices: Pointer;
  readonly values: Pointer;
  /**
   * For {@link TensorCompressor} and {@link GradientCodec}; holds nothing between their calls, and so is the scratch of
   * the collectives too.
   */
  readonly workspace: Pointer;
  /** Of the whole arena. */
  readonly bytes: number;
}

/**
 * Puts variables into arenas, in their order: a new arena begins where the next variable no longer fits in the one
 * before. There is one at least. The same arguments give the same arenas, on which the ranks of a ring depend.
 *
 * An arena costs 12 bytes a parameter (g, u, v), 8 for each entry that the compression ever sends in a step (4 for
 * those of dense tensors, if values are lossy), and scratch of half a byte a parameter of its largest sparse variable,
 * or 256 KiB.
 *
 * @param arenaBytes The most that an arena may take.
 * @throws GradringError `ERR_OUT_OF_MEMORY` for a variable that does not fit in an arena of its own.
 */
export function layArenas(
  variables: readonly VariableShape[],
  compression: Compression,
  arenaBytes: number,
): readonly ArenaLayout[] {
  const density = largestDensity(compression);
  const lossy = valueFormatOf(compression) !== 'float32';
  const arenas: Tensor[][] = [[]];
  let needed = NOTHING;
  for (const { name, shape } of variables) {
    const elementCount = shape.reduce((product, size) => product * size, 1);
    const dense = travelsDense(compression, shape, elementCount);
    const need: Need = {
      regionBytes: align(elementCount * 4),
      indexBytes: dense ? 0 : entryBytes(sentCount(elementCount, density)),
      valueBytes: dense ? (lossy ? entryBytes(elementCount) : 0) : entryBytes(sentCount(elementCount, density)),
      largestSparse: dense ? 0 : elementCount,
    };
    if (bytesOf(need) > arenaBytes) throw tooLarge(name, elementCount, bytesOf(need), arenaBytes);
    needed = together(needed, need);
    if (bytesOf(needed) > arenaBytes) {
      arenas.push([]);
      needed = need;
    }
    arenas.at(-1)!.push({ ...need, elementCount, dense });
  }
  return arenas.map(layOut);
}

/** What has to fit in an arena. */
interface Need {
  /** Of each of the three regions. */
  readonly regionBytes: number;
  /** Of the entries that a step sends at most. */
  readonly indexBytes: number;
  readonly valueBytes: number;
  /** Elements of the largest tensor that is compressed. */
  readonly largestSparse: number;
}

interface Tensor extends Need {
  readonly elementCount: number;
  readonly dense: boolean;
}

const NOTHING: Need = { regionBytes: 0, indexBytes: 0, valueBytes: 0, largestSparse: 0 };

function together(one: Need, other: Need): Need {
  return {
    regionBytes: one.regionBytes + other.regionBytes,
    indexBytes: one.indexBytes + other.indexBytes,
    valueBytes: one.valueBytes + other.valueBytes,
    largestSparse: Math.max(one.largestSparse, other.largestSparse),
  };
}

function bytesOf(need: Need): number {
  return 3 * need.regionBytes + need.indexBytes + need.valueBytes + align(workspaceBytes(need));
}

/** Selection, coding with the decoders of several ranks side by side, and the dense collectives use it by turns. */
function workspaceBytes({ regionBytes, largestSparse }: Need): number {
  const decoders = largestSparse === 0 ? 0 : Math.min(MAX_DECODER_BYTES, regionBytes / 8);
  return Math.max(
    SCRATCH_BYTES,
    GradientCodec.workspaceBytes + decoders,
    TensorCompressor.workspaceBytes(largestSparse),
  );
}

function layOut(tensors: readonly Tensor[]): ArenaLayout {
  const need = tensors.reduce(together, NOTHING);
  const { regionBytes } = need;
  const indices = 3 * regionBytes;
  const values = indices + need.indexBytes;
  let offset = 0;
  return {
    tensors: tensors.map(({ elementCount, dense, ...own }): ExchangedTensor => {
      const gradient = offset;
      offset += own.regionBytes;
      return { elementCount, dense, gradient, momentum: gradient + regionBytes, residual: gradient + 2 * regionBytes };
    }),
    gradients: { type: 'float32', data: 0, elementCount: regionBytes / 4 },
    indices,
    values,
    workspace: values + need.valueBytes,
    bytes: bytesOf(need),
  };
}

/** The most that a schedule ever sends of a sparse tensor. */
function largestDensity(compression: Compression): number {
  if (compression.kind === 'none') return 0;
  const { sparsity, warmUp, warmUpEpochs = 0, warmUpSteps } = compression;
  if (sparsity === 'auto') return LARGEST_DENSITY;
  const warmsUp = warmUp === 'sparse' && warmUpEpochs + warmUpSteps > 0;
  return Math.max(1 - sparsity, warmsUp ? LARGEST_DENSITY : 0);
}

/** Room for the indices, or the values, of so many entries of a tensor. */
export function entryBytes(count: number): number {
  return align(4 * count);
}

function align(bytes: number): number {
  return Math.ceil(bytes / 16) * 16;
}

function tooLarge(variable: string, elementCount: number, bytes: number, arenaBytes: number): GradringError {
  const words = `Variable '${variable}' of ${elementCount} elements needs ${bytes} bytes for its gradient, momentum, residual and scratch, but a variable must fit in one memory of ${arenaBytes} bytes: split it into several variables.`;
  return new GradringError('ERR_OUT_OF_MEMORY', words, { variable });
}

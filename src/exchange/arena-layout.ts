import { SCRATCH_BYTES } from '../collectives/collective-call';
import type { ReducedArray } from '../collectives/dense-array';
import { methodOf } from '../compression/compression-method';
import type { Compression } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import type { TensorState } from '../compression/tensor-compressor';
import type { EntryRoom, SharedState } from '../compression/tensor-treatment';
import { GradringError, invalidArgument } from '../errors';
import { align, type Pointer } from '../kernels/pointer';

/** The most that one arena may hold: what 32-bit pointers reach. */
export const MAX_ARENA_BYTES = 2 ** 32;

/** Room for the decoders of some 200 ranks. */
const MAX_DECODER_BYTES = 16 * 2 ** 20;

/** A variable whose gradient is exchanged. */
export interface VariableShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * A tensor of an exchange, and its state in the memory of its arena. The gradients of an arena follow each other, first
 * those of tensors that are sent whole.
 */
export interface ExchangedTensor extends TensorState, SharedState {
  readonly shape: readonly number[];
  /** Whether the compression's rules send it whole at any density. */
  readonly isWhole: boolean;
}

/** Where everything of an arena lies in its memory. */
export interface ArenaLayout {
  readonly tensors: readonly ExchangedTensor[];
  /** The gradients of all its tensors. */
  readonly gradients: ReducedArray;
  /** Those of the tensors that are always sent whole: the first part of {@link gradients}. */
  readonly wholeGradients: ReducedArray;
  /** Room for the entries that are sent of all its tensors. */
  readonly indices: Pointer;
  readonly values: Pointer;
  /**
   * Scratch of the treatments, of {@link GradientCodec} and of the collectives, one at a time: it holds nothing between
   * their calls.
   */
  readonly workspace: Pointer;
  /** What a helper of the comm thread needs of its own: as much as the workspace, but for the collectives. */
  readonly helperBytes: number;
  /** The size of the whole arena. */
  readonly bytes: number;
}

/**
 * Puts variables into arenas, in their order. A new arena begins where the next variable no longer fits in the one
 * before. There is at least one arena. The same arguments give the same arenas; the ranks of a ring depend on that.
 *
 * An arena costs 12 bytes a parameter (g, u, v), 8 bytes for each entry that the compression sends at its largest
 * density (4 for those of tensors that are sent whole, if values are rounded, or as messages), and scratch: half a byte
 * a parameter of its largest sparse variable, or 256 KiB.
 *
 * @param arenaBytes The most that an arena may take.
 * @throws GradringError `ERR_OUT_OF_MEMORY` for a variable that does not fit in an arena of its own.
 */
export function layArenas(
  variables: readonly VariableShape[],
  compression: Compression,
  arenaBytes: number,
): readonly ArenaLayout[] {
  const method = methodOf(compression);
  const large = variables.map(({ shape }) => shape).filter(shape => !method.sendsWhole(shape));
  const compressorFor = method.compressors(large);
  const arenas: Tensor[][] = [[]];
  let needed = NOTHING;
  for (const { name, shape } of variables) {
    const elementCount = elementsOf(shape);
    const isWhole = method.sendsWhole(shape);
    const room = method.treatment(isWhole, method.largestDensity).room(elementCount, method.largestDensity);
    const sharedLength = (isWhole ? undefined : compressorFor?.(false).sharedLength?.(shape)) ?? 0;
    if (!Number.isSafeInteger(sharedLength) || sharedLength < 0) {
      throw invalidArgument(
        `The sharedLength of a compressor is ${sharedLength}; it must be a whole number, 0 or more.`,
      );
    }
    const need: Need = { regionBytes: align(elementCount * 4), sharedBytes: align(sharedLength * 4), ...room };
    if (bytesOf(need) > arenaBytes) throw tooLarge(name, elementCount, bytesOf(need), arenaBytes);
    needed = together(needed, need);
    if (bytesOf(needed) > arenaBytes) {
      arenas.push([]);
      needed = need;
    }
    arenas.at(-1)!.push({ ...need, elementCount, isWhole, shape, sharedLength });
  }
  return arenas.map(layOut);
}

function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** What has to fit in an arena. */
interface Need extends EntryRoom {
  /** The size of each of the three regions. */
  readonly regionBytes: number;
  /** The size of the state that a compressor keeps beside them. */
  readonly sharedBytes: number;
}

interface Tensor extends Need {
  readonly elementCount: number;
  readonly isWhole: boolean;
  readonly shape: readonly number[];
  readonly sharedLength: number;
}

const NOTHING: Need = { regionBytes: 0, sharedBytes: 0, indexBytes: 0, valueBytes: 0, workspaceBytes: 0 };

function together(one: Need, other: Need): Need {
  return {
    regionBytes: one.regionBytes + other.regionBytes,
    sharedBytes: one.sharedBytes + other.sharedBytes,
    indexBytes: one.indexBytes + other.indexBytes,
    valueBytes: one.valueBytes + other.valueBytes,
    workspaceBytes: Math.max(one.workspaceBytes, other.workspaceBytes),
  };
}

function bytesOf(need: Need): number {
  return 3 * need.regionBytes + need.sharedBytes + need.indexBytes + need.valueBytes + align(scratchBytes(need));
}

/** Treatments, coding with the decoders of several ranks side by side, and the dense collectives use it by turns. */
function scratchBytes(need: Need): number {
  return Math.max(SCRATCH_BYTES, helperBytes(need));
}

function helperBytes({ regionBytes, indexBytes, workspaceBytes }: Need): number {
  const decoders = indexBytes === 0 ? 0 : Math.min(MAX_DECODER_BYTES, regionBytes / 8);
  return Math.max(GradientCodec.workspaceBytes + decoders, workspaceBytes);
}

function layOut(tensors: readonly Tensor[]): ArenaLayout {
  const need = tensors.reduce(together, NOTHING);
  const { regionBytes } = need;
  const indices = 3 * regionBytes + need.sharedBytes;
  const values = indices + need.indexBytes;
  const wholeBytes = tensors.reduce((sum, tensor) => sum + (tensor.isWhole ? tensor.regionBytes : 0), 0);
  const next = { whole: 0, others: wholeBytes };
  let nextShared = 3 * regionBytes;
  return {
    tensors: tensors.map(({ elementCount, isWhole, shape, sharedLength, ...own }): ExchangedTensor => {
      const kind = isWhole ? 'whole' : 'others';
      const gradient = next[kind];
      const shared = nextShared;
      next[kind] += own.regionBytes;
      nextShared += own.sharedBytes;
      const [momentum, residual] = [gradient + regionBytes, gradient + 2 * regionBytes];
      return { elementCount, isWhole, shape, gradient, momentum, residual, shared, sharedLength };
    }),
    gradients: { type: 'float32', data: 0, elementCount: regionBytes / 4 },
    wholeGradients: { type: 'float32', data: 0, elementCount: wholeBytes / 4 },
    indices,
    values,
    workspace: values + need.valueBytes,
    helperBytes: align(helperBytes(need)),
    bytes: bytesOf(need),
  };
}

function tooLarge(variable: string, elementCount: number, bytes: number, arenaBytes: number): GradringError {
  const words = `Variable '${variable}' of ${elementCount} elements needs ${bytes} bytes for its gradient, momentum, residual and scratch, but a variable must fit in one memory of ${arenaBytes} bytes: split it into several variables.`;
  return new GradringError('ERR_OUT_OF_MEMORY', words, { variable });
}

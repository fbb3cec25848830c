import { dgc } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import type { CodedTensor, GradientStreams } from '../compression/gradient-streams';
import type { ValueFormat } from '../compression/value-format';
import type { SharedHeap } from '../memory/shared-heap';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels } from '../kernels/kernels';
import { encodeGradientPayload } from '../wire/gradient-payload';
import { frameBytes } from './frame-size';
import { withBlock } from './heap-block';
import type { TensorShape } from './models/tensor-shape';
import { rounded } from './statistics';
import { subsetBits } from './subset-entropy';
import { layStep, type StepTensor, type Training, trainSteps } from './training-step';

/** What is measured: the bytes that one rank sends in a step of a model. */
export interface CodecCase {
  readonly model: readonly TensorShape[];
  readonly format: ValueFormat;
  /** The fraction of each sparse tensor that is sent, less than 1. */
  readonly density: number;
}

/** The result of one {@link CodecCase}. */
export interface CodecSizes {
  readonly parameters: number;
  /** The whole gradient as float32. */
  readonly denseBytes: number;
  /** All that goes over a link: the sum of the four parts below. */
  readonly wireBytes: number;
  /** denseBytes / wireBytes. */
  readonly compressionRatio: number;
  /** How many elements of sparse tensors are sent. */
  readonly sparseEntries: number;
  /** How many elements the other tensors have, which are sent whole. */
  readonly denseEntries: number;
  /** Index stream / sparse entries. */
  readonly bitsPerIndex: number;
  /** The same if the indices took only the bits of {@link subsetBits}. */
  readonly entropyBitsPerIndex: number;
  /** Values of sparse tensors / sparse entries. */
  readonly bitsPerValue: number;
  /** Values of dense tensors / their elements. Left out if there are none. */
  readonly bitsPerDenseValue?: number;
  readonly indexBytes: number;
  readonly sparseValueBytes: number;
  readonly denseValueBytes: number;
  /** Frame header, payload table, ZeroMQ's framing. */
  readonly overheadBytes: number;
}

/**
 * Counts the bytes of the last step of a training, in a block of the heap that is released afterwards. The streams are
 * decoded again. If that does not give what was sent, an error is thrown.
 *
 * The step is always encoded sparse, also at a density at which a ring of many ranks would send it dense.
 *
 * @throws ERR_OUT_OF_MEMORY, or ERR_INVALID_ARGUMENT for a density that `dgc()` does not take.
 */
export function measureCodec(
  heap: SharedHeap,
  kernels: Kernels,
  { model, format, density }: CodecCase,
  training: Training,
): CodecSizes {
  const compression = dgc({ sparsity: 1 - density, warmUpSteps: 0, values: format });
  return withBlock(
    heap,
    start => layStep(model, compression, start),
    layout => {
      const { memory } = heap;
      const codec = new GradientCodec(kernels, memory, format, layout.workspace);
      trainSteps({ memory, kernels, codec }, layout, training);
      return sizesOf(memory, codec, layout.tensors);
    },
  );
}

function sizesOf(memory: KernelMemory, codec: GradientCodec, tensors: readonly StepTensor[]): CodecSizes {
  const sparse = tensors.filter(({ isWhole }) => !isWhole);
  const dense = tensors.filter(({ isWhole }) => isWhole);
  const countOf = (some: readonly CodedTensor[]): number => some.reduce((sum, { count }) => sum + count, 0);
  const parameters = tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);

  // One stream has the values of both kinds of tensors. To count them apart, those of dense tensors are encoded again.
  const accumulated = dense.map(({ values, count }) => new Float32Array(memory.buffer, values, count).slice());
  const streams = codec.encode(tensors);
  requireSame(memory, codec, streams, tensors);
  dense.forEach(({ values, count }, i) => new Float32Array(memory.buffer, values, count).set(accumulated[i]!));
  const payload = encodeGradientPayload({ format: codec.format, counts: undefined, streams });
  const wireBytes = frameBytes(payload, parameters);
  const [indexBytes, valueBytes] = [streams.indices.length, streams.values.length];
  const denseValueBytes = codec.encode(dense).values.length; // this overwrites the streams
  const sparseValueBytes = valueBytes - denseValueBytes;
  const sparseEntries = countOf(sparse);
  const denseEntries = countOf(dense);
  const entropyBits = sparse.reduce((sum, { elementCount, count }) => sum + subsetBits(elementCount, count), 0);
  return {
    parameters,
    denseBytes: 4 * parameters,
    wireBytes,
    compressionRatio: rounded((4 * parameters) / wireBytes, 3),
    sparseEntries,
    denseEntries,
    bitsPerIndex: rounded((8 * indexBytes) / sparseEntries, 4),
    entropyBitsPerIndex: rounded(entropyBits / sparseEntries, 4),
    bitsPerValue: rounded((8 * sparseValueBytes) / sparseEntries, 4),
    ...(denseEntries > 0 && { bitsPerDenseValue: rounded((8 * denseValueBytes) / denseEntries, 4) }),
    indexBytes,
    sparseValueBytes,
    denseValueBytes,
    overheadBytes: wireBytes - indexBytes - streams.values.length,
  };
}

/** Decodes the streams. Throws if that does not give the entries that were encoded, bit for bit: it would be a bug. */
function requireSame(
  { buffer }: KernelMemory,
  codec: GradientCodec,
  streams: GradientStreams,
  tensors: readonly StepTensor[],
): void {
  const decoded = tensors.map(() => 0);
  const same = (one: number, other: number, count: number): boolean =>
    Buffer.from(buffer, one, 4 * count).equals(Buffer.from(buffer, other, 4 * count));
  codec.decode(streams, tensors, ({ tensor, count, first, indices, values }) => {
    const sent = tensors[tensor]!;
    const sameIndices = indices === undefined || same(indices, sent.indices + 4 * first, count);
    if (first !== decoded[tensor] || !sameIndices || !same(values, sent.values + 4 * first, count)) {
      throw new Error(
        `Entries ${first} to ${first + count - 1} of tensor ${tensor} were not decoded as they were sent.`,
      );
    }
    decoded[tensor]! += count;
  });
  const short = tensors.findIndex(({ count }, t) => decoded[t] !== count);
  if (short !== -1) throw new Error(`Only ${decoded[short]} entries of tensor ${short} were decoded.`);
}

import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Magnitude, Pointer } from '../kernels/kernels';
import { BIT_STREAM_BYTES, BitWriter, BLOCK_ENTRIES } from './bit-stream';
import { GradientDecoder } from './gradient-decoder';
import type { CodedTensor, GradientStreams } from './gradient-streams';
import { blockCount, encodeIndices } from './index-codec';
import { encodeValues } from './value-codec';
import { LEVELS_BYTES, quantizationOf, type ValueFormat } from './value-format';

/** Where the entries of a tensor are that are sent, in the memory of the kernels. */
export interface TensorEntries extends CodedTensor {
  /** `count` uint32, ascending, below elementCount. Not used if all elements are sent. */
  readonly indices: Pointer;
  /** `count` float32, finite. Encoding replaces them by what the receivers will get. */
  readonly values: Pointer;
  /** The largest magnitude of the values, if it is known. This saves a pass over them. */
  readonly largest?: Magnitude | undefined;
}

/** A run of decoded entries, valid until the visitor returns. */
export interface DecodedEntries {
  /** Number of the tensor. */
  readonly tensor: number;
  readonly count: number;
  /** The element that the run begins with, if all elements of the tensor are sent … */
  readonly first: number;
  /** … else the index of each element: uint32, ascending, below elementCount. */
  readonly indices: Pointer | undefined;
  /** float32, finite, 16-byte aligned. */
  readonly values: Pointer;
}

const ARRAY_BYTES = 4 * BLOCK_ENTRIES;

/**
 * Encodes gradients to bits, and decodes them. Tensors follow each other in the two streams without a gap, in blocks of
 * {@link BLOCK_ENTRIES} entries, each in the code that takes the fewest bits. What the receivers know, such as the
 * number of entries, is not written.
 */
export class GradientCodec {
  /** Bytes of workspace. */
  static readonly workspaceBytes = Math.max(
    2 * BIT_STREAM_BYTES + ARRAY_BYTES + LEVELS_BYTES,
    GradientDecoder.workspaceBytes,
  );

  private readonly indexWriter: BitWriter;
  private readonly valueWriter: BitWriter;
  private readonly symbols: Pointer;
  private readonly levels: Pointer;

  /**
   * @param memory That of the kernels.
   * @param workspace {@link workspaceBytes}, 16-byte aligned. It holds nothing between calls.
   */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: KernelMemory,
    readonly format: ValueFormat,
    private readonly workspace: Pointer,
  ) {
    const valueWindow = workspace + BIT_STREAM_BYTES;
    this.symbols = valueWindow + BIT_STREAM_BYTES;
    this.levels = this.symbols + ARRAY_BYTES;
    this.indexWriter = new BitWriter(kernels, memory, workspace);
    this.valueWriter = new BitWriter(kernels, memory, valueWindow);
  }

  /** The streams of these tensors, valid until the next call. */
  encode(tensors: readonly TensorEntries[]): GradientStreams {
    const { kernels, memory, format, symbols, levels, indexWriter, valueWriter } = this;
    indexWriter.start();
    valueWriter.start();
    for (const tensor of tensors) {
      const { elementCount, count, indices, values } = tensor;
      if (count === 0) continue;
      const quantization = quantizationOf(kernels, memory, format, tensor, levels, valueWriter);
      const sent = new Uint32Array(memory.buffer, indices, count < elementCount ? count : 0);
      let first = 0;
      for (let done = 0; done < count; done += BLOCK_ENTRIES) {
        const block = { elementCount, first, left: count - done };
        const entries = blockCount(block);
        if (count < elementCount) {
          const next = sent[done + entries - 1]! + 1;
          encodeIndices(kernels, block, indices + 4 * done, next, symbols, indexWriter);
          first = next;
          indexWriter.endBlock();
        }
        encodeValues(kernels, values + 4 * done, entries, quantization, symbols, valueWriter);
        valueWriter.endBlock();
      }
    }
    return { indices: indexWriter.finish(), values: valueWriter.finish() };
  }

  /**
   * Reads streams that were received, and passes the entries on as they are decoded.
   *
   * @throws ERR_PROTOCOL if they hold something else than these tensors. The visitor has seen the entries before that.
   */
  decode(streams: GradientStreams, tensors: readonly CodedTensor[], visit: (entries: DecodedEntries) => void): void {
    const decoder = this.decoderOf(streams);
    tensors.forEach((coded, tensor) => {
      decoder.startTensor(coded);
      const indices = coded.count === coded.elementCount ? undefined : decoder.indices;
      for (let first = 0; first < coded.count;) {
        const count = decoder.readBlock();
        visit({ tensor, count, first, indices, values: decoder.values });
        first += count;
      }
    });
    decoder.finish();
  }

  /**
   * A decoder of streams of this format that were received.
   *
   * @param workspace {@link GradientDecoder.workspaceBytes}, 16-byte aligned. Default: the codec's own.
   */
  decoderOf(streams: GradientStreams, workspace = this.workspace): GradientDecoder {
    return new GradientDecoder(this.kernels, this.memory, this.format, streams, workspace);
  }
}

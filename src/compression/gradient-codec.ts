import type { KernelMemory } from '../kernel-memory';
import type { Quantization } from '../kernels/codec-kernels';
import type { Kernels, Magnitude, Pointer } from '../kernels/kernels';
import { BIT_STREAM_BYTES, BitReader, BitWriter, BLOCK_ENTRIES, RicePair } from './bit-stream';
import {
  type CodedTensor,
  type GradientStreams,
  type SectionStreams,
  sectionsOf,
  streamsOfSection,
} from './gradient-streams';
import { blockCount, encodeIndices, finishIndices, readGaps } from './index-codec';
import {
  encodeValues,
  finishValues,
  LEVELS_BYTES,
  quantizationOf,
  readQuantization,
  readSymbols,
  type ValueFormat,
} from './value-format';

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
  /** How many entries of the tensor come before it. If all elements are sent, the element that it begins with … */
  readonly first: number;
  /** … else the index of each element: uint32, ascending, below elementCount. */
  readonly indices: Pointer | undefined;
  /** float32, finite, 16-byte aligned. */
  readonly values: Pointer;
}

const ARRAY_BYTES = 4 * BLOCK_ENTRIES;

/**
 * Reads the streams of a section, tensor by tensor in their order, and block by block. Any number of decoders may take
 * turns. Every method throws ERR_PROTOCOL if the streams hold something else than these tensors.
 */
export class GradientDecoder {
  /** Bytes of workspace. */
  static readonly workspaceBytes = 2 * BIT_STREAM_BYTES + 2 * ARRAY_BYTES + LEVELS_BYTES;

  /**
   * The index of each entry of the last block: uint32, ascending, below elementCount. Not written if all elements of
   * the tensor are sent.
   */
  readonly indices: Pointer;
  /** The values of the last block: float32, finite. 16-byte aligned. */
  readonly values: Pointer;

  private readonly levels: Pointer;
  private readonly indexReader: BitReader;
  private readonly valueReader: BitReader;
  private readonly codes: RicePair;
  private tensor: CodedTensor = { elementCount: 0, count: 0 };
  private quantization: Quantization = { format: 'float32' };
  /** How many entries of the tensor are to come, and the index from which they are. */
  private left = 0;
  private next = 0;
  /** For {@link addBelow}: the entries of the last block, how many of them were added, and how many came before it. */
  private inBlock = 0;
  private added = 0;
  private before = 0;

  /**
   * @param memory The memory of the kernels.
   * @param workspace {@link workspaceBytes}, 16-byte aligned, for this decoder alone.
   */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: KernelMemory,
    private readonly format: ValueFormat,
    streams: SectionStreams,
    workspace: Pointer,
  ) {
    this.indices = workspace + 2 * BIT_STREAM_BYTES;
    this.values = this.indices + ARRAY_BYTES;
    this.levels = this.values + ARRAY_BYTES;
    this.indexReader = new BitReader(kernels, memory, workspace, streams.indices);
    this.valueReader = new BitReader(kernels, memory, workspace + BIT_STREAM_BYTES, streams.values);
    this.codes = new RicePair(kernels);
  }

  /** Starts the next tensor. All blocks of the one before must have been read. */
  startTensor(tensor: CodedTensor): void {
    this.tensor = tensor;
    this.left = tensor.count;
    this.next = this.inBlock = this.added = this.before = 0;
    if (tensor.count === 0) return;
    this.valueReader.startBlock();
    this.quantization = readQuantization(this.memory, this.format, this.levels, this.valueReader);
  }

  /**
   * Reads the next block of the tensor, in the place of the one before. Returns how many entries it has, 0 if there are
   * no more blocks.
   */
  readBlock(): number {
    const { kernels, left, codes, indexReader, valueReader, indices, values } = this;
    if (left === 0) return 0;
    const { elementCount, count } = this.tensor;
    const block = { elementCount, first: this.next, left };
    const entries = blockCount(block);
    const whole = count === elementCount;
    if (!whole) {
      indexReader.startBlock();
      readGaps(kernels, block, indexReader, codes, indices);
    }
    valueReader.startBlock();
    const base = readSymbols(kernels, valueReader, entries, this.quantization, codes, values);
    codes.finish();
    finishValues(kernels, entries, this.quantization, base, values);
    if (!whole) this.next = finishIndices(kernels, block, indices);
    this.left -= entries;
    return entries;
  }

  /**
   * Reads on, and adds the entries below `end` that were not added yet. If all elements of the tensor are sent, a block
   * must end at `end`.
   *
   * @param sum The tensor: elementCount float32, 16-byte aligned.
   */
  addBelow(end: number, sum: Pointer): void {
    const { kernels, indices, values } = this;
    const { elementCount, count } = this.tensor;
    while (this.added < this.inBlock || this.takeBlock()) {
      if (count === elementCount) {
        if (this.before >= end) return;
        kernels.reduce('sum', 'float32', sum + 4 * this.before, values, this.inBlock);
        this.added = this.inBlock;
      } else {
        this.added = kernels.scatterAddBelow(sum, indices, values, this.added, this.inBlock, end);
        if (this.added < this.inBlock) return;
      }
    }
  }

  /** Reads the next block for {@link addBelow}. Returns whether there was one. */
  private takeBlock(): boolean {
    this.before += this.inBlock;
    this.added = 0;
    this.inBlock = this.readBlock();
    return this.inBlock > 0;
  }

  /** Checks that nothing is left in the streams, when all tensors of the section have been read. */
  finish(): void {
    this.indexReader.finish();
    this.valueReader.finish();
  }
}

/**
 * Encodes gradients to bits, and decodes them. Tensors follow each other in the two streams, without a gap within a
 * section ({@link sectionsOf}), in blocks of {@link BLOCK_ENTRIES} entries. Each block is in the code that takes the
 * fewest bits. What the receivers know, such as the number of entries, is not written.
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
   * @param memory The memory of the kernels.
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
    const { indexWriter, valueWriter } = this;
    this.start();
    const ends = sectionsOf(tensors).map(({ from, until }) => {
      for (let t = from; t < until; t++) this.write(tensors[t]!);
      return [indexWriter.align(), valueWriter.align()];
    });
    return { indices: indexWriter.finish(), values: valueWriter.finish(), sectionEnds: ends.slice(0, -1).flat() };
  }

  /** The streams of a section with these tensors, as a copy. */
  encodeSection(tensors: readonly TensorEntries[]) {
    this.start();
    for (const tensor of tensors) this.write(tensor);
    return { indices: this.indexWriter.finish().slice(), values: this.valueWriter.finish().slice() };
  }

  private start(): void {
    this.indexWriter.start();
    this.valueWriter.start();
  }

  private write(tensor: TensorEntries): void {
    const { kernels, memory, format, symbols, levels, indexWriter, valueWriter } = this;
    const { elementCount, count, indices, values } = tensor;
    if (count === 0) return;
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

  /**
   * Reads streams that were received, and passes the entries on as they are decoded.
   *
   * @throws ERR_PROTOCOL if they hold something else than these tensors. The visitor has seen the entries before that.
   */
  decode(streams: GradientStreams, tensors: readonly CodedTensor[], visit: (entries: DecodedEntries) => void): void {
    for (const section of sectionsOf(tensors)) {
      const decoder = this.decoderOf(streamsOfSection(streams, section));
      for (let tensor = section.from; tensor < section.until; tensor++) {
        const coded = tensors[tensor]!;
        decoder.startTensor(coded);
        const indices = coded.count === coded.elementCount ? undefined : decoder.indices;
        for (let first = 0; first < coded.count;) {
          const count = decoder.readBlock();
          visit({ tensor, count, first, indices, values: decoder.values });
          first += count;
        }
      }
      decoder.finish();
    }
  }

  /**
   * A decoder of a section of this format that was received.
   *
   * @param workspace {@link GradientDecoder.workspaceBytes}, 16-byte aligned. Default: the codec's own.
   */
  decoderOf(streams: SectionStreams, workspace = this.workspace): GradientDecoder {
    return new GradientDecoder(this.kernels, this.memory, this.format, streams, workspace);
  }
}

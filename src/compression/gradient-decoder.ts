import type { Quantization } from '../kernels/codec-kernels';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Pointer } from '../kernels/kernels';
import { BIT_STREAM_BYTES, BitReader, BLOCK_ENTRIES } from './bit-stream';
import type { CodedTensor, GradientStreams } from './gradient-streams';
import { blockCount, finishIndices, readGaps } from './index-codec';
import { RicePair } from './rice-pair';
import { finishValues, readSymbols } from './value-codec';
import { LEVELS_BYTES, readQuantization, type ValueFormat } from './value-format';

const ARRAY_BYTES = 4 * BLOCK_ENTRIES;

/**
 * Reads streams that were received, tensor by tensor in their order, and block by block. Any number of decoders may
 * take turns. Every method throws ERR_PROTOCOL if the streams hold something else than these tensors.
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
  private left = 0;
  private next = 0;

  /**
   * @param memory That of the kernels.
   * @param workspace {@link workspaceBytes}, 16-byte aligned, for this decoder alone.
   */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: KernelMemory,
    private readonly format: ValueFormat,
    streams: GradientStreams,
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
    this.next = 0;
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

  /** Checks that nothing is left in the streams, when all tensors have been read. */
  finish(): void {
    this.indexReader.finish();
    this.valueReader.finish();
  }
}

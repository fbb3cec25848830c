import { growMemory, sharedMemory } from '../../address-space';
import type { Kernels, Pointer } from '../../kernels/kernels';
import { align } from '../../kernels/pointer';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { BIT_STREAM_BYTES, BitReader, BitWriter, BLOCK_ENTRIES, malformed } from '../bit-stream';

/** The largest magnitude that is coded. All up to it are exact as float32. */
export const LARGEST_INTEGER = 2 ** 24;

const PARAMETER_BITS = 5;
const INTEGERS_BYTES = 4 * BLOCK_ENTRIES;
const MOST_BYTES = 2 ** 32;
const PURPOSE = 'for the largest tensor that is compressed';

/** Memory and kernels for the codes of tensors, one after the other. It grows to the largest tensor. */
export class CodeScratch {
  private readonly memory = sharedMemory(INTEGERS_BYTES + BIT_STREAM_BYTES, MOST_BYTES, PURPOSE);
  readonly kernels: Kernels = instantiateKernels(this.memory);
  private readonly integers: Pointer = 0;
  private readonly window: Pointer = INTEGERS_BYTES;
  private readonly rest: Pointer = this.window + BIT_STREAM_BYTES;
  readonly writer = new BitWriter(this.kernels, this.memory, this.window);

  /**
   * A place for as many float32 as each of the lengths says, 16-byte aligned. It holds what was there before.
   *
   * @throws GradringError `ERR_OUT_OF_MEMORY`
   */
  places<Lengths extends number[]>(...lengths: Lengths): { [Index in keyof Lengths]: Pointer } {
    let end = this.rest;
    const places = lengths.map(length => {
      const start = end;
      end += align(4 * length);
      return start;
    });
    growMemory(this.memory, end, PURPOSE);
    return places as { [Index in keyof Lengths]: Pointer };
  }

  /** The numbers at a place. */
  at(place: Pointer, length: number): Float32Array {
    return new Float32Array(this.memory.buffer, place, length);
  }

  bytesAt(place: Pointer, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, place, length);
  }

  /**
   * Appends whole numbers that are normally distributed, more or less. In blocks of {@link BLOCK_ENTRIES}: 5 bits with
   * the parameter, then 0, −1, 1, −2, 2, … as 0, 1, 2, 3, 4, … in Rice code. With a deviation of one to four that takes
   * some 5 % more than the entropy.
   *
   * @param integers Whole, at most {@link LARGEST_INTEGER}.
   */
  write(integers: Float32Array): void {
    const { kernels, writer } = this;
    const symbols = this.symbols();
    for (let start = 0; start < integers.length; start += BLOCK_ENTRIES) {
      const count = Math.min(BLOCK_ENTRIES, integers.length - start);
      let sum = 0;
      for (let i = 0; i < count; i++) {
        const integer = integers[start + i]!;
        const symbol = integer < 0 ? -2 * integer - 1 : 2 * integer;
        symbols[i] = symbol;
        sum += symbol;
      }
      const parameter = kernels.riceParameter(this.integers, count, Math.floor(sum / count), 'near');
      writer.write(parameter, PARAMETER_BITS);
      writer.at = kernels.riceEncode(this.integers, count, parameter, writer.at);
      writer.endBlock();
    }
  }

  /** A reader of a message, until the writer or another reader is used. */
  readerOf(message: Uint8Array): BitReader {
    return new BitReader(this.kernels, this.memory, this.window, message);
  }

  /**
   * Reads what {@link write} wrote, each number multiplied by a factor and rounded to float32. Returns the largest
   * magnitude before that.
   *
   * @throws ERR_PROTOCOL if the message ends early, or holds a number that is too large.
   */
  read(reader: BitReader, factor: number, into: Float32Array): number {
    const symbols = this.symbols();
    return this.readBlocks(reader, into.length, LARGEST_INTEGER, (start, count) => {
      let largest = 0;
      for (let i = 0; i < count; i++) {
        const symbol = symbols[i]!;
        if (symbol > largest) largest = symbol;
        into[start + i] = ((symbol & 1) === 0 ? symbol / 2 : -(symbol + 1) / 2) * factor;
      }
      return largest;
    });
  }

  /**
   * {@link read}, but writes each number as every second int16 from a place on: see {@link Kernels.unfoldSymbols}.
   *
   * @throws as `read` does.
   */
  readHalves(reader: BitReader, length: number, { factor, limit, into, isSecond }: Halves): number {
    return this.readBlocks(reader, length, limit, (start, count) =>
      this.kernels.unfoldSymbols(this.integers, count, factor, into + 4 * start, isSecond),
    );
  }

  /** @param take Called with each block: its symbols are in the scratch. Returns the largest of them. */
  private readBlocks(
    reader: BitReader,
    length: number,
    limit: number,
    take: (start: number, count: number) => number,
  ): number {
    let largest = 0;
    for (let start = 0; start < length; start += BLOCK_ENTRIES) {
      const count = Math.min(BLOCK_ENTRIES, length - start);
      reader.startBlock();
      const parameter = reader.read(PARAMETER_BITS);
      reader.advance(this.kernels.riceDecode(this.integers, count, parameter, reader.at, reader.until));
      largest = Math.max(largest, take(start, count));
    }
    if (largest > 2 * limit) throw malformed('holds a number that is too large');
    return Math.ceil(largest / 2);
  }

  /** Of the block that is being written or read. */
  private symbols(): Uint32Array {
    return new Uint32Array(this.memory.buffer, this.integers, BLOCK_ENTRIES);
  }
}

/** Where whole numbers go. Their limit times the factor is less than 2¹⁵. */
interface Halves {
  readonly factor: number;
  readonly limit: number;
  readonly into: Pointer;
  readonly isSecond: boolean;
}

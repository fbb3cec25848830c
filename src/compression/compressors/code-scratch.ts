import { growMemory, sharedMemory } from '../../address-space';
import type { Kernels, Pointer } from '../../kernels/kernels';
import { align } from '../../kernels/pointer';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { BIT_STREAM_BYTES, BitReader, BitWriter, BLOCK_ENTRIES } from '../bit-stream';
import { INTEGERS_BYTES, LARGEST_INTEGER, readIntegers, writeIntegers } from './integer-code';

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

  /** See {@link writeIntegers}. */
  write(integers: Float32Array): void {
    writeIntegers(this.kernels, this.memory.buffer, integers, this.integers, this.writer);
  }

  /** A reader of a message, until the writer or another reader is used. */
  readerOf(message: Uint8Array): BitReader {
    return new BitReader(this.kernels, this.memory, this.window, message);
  }

  /** Reads whole numbers, each multiplied by a factor and rounded to float32. Returns the largest before that. */
  read(reader: BitReader, factor: number, into: Float32Array): number {
    const symbols = new Uint32Array(this.memory.buffer, this.integers, BLOCK_ENTRIES);
    const numbers = { length: into.length, scratch: this.integers, limit: LARGEST_INTEGER };
    return readIntegers(this.kernels, reader, numbers, (start, count) => {
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
   * Reads whole numbers, each multiplied by a factor, as every second int16 from a place on: see
   * {@link Kernels.unfoldSymbols}. Returns the largest before that.
   */
  readHalves(reader: BitReader, length: number, { factor, limit, into, isSecond }: Halves): number {
    const numbers = { length, scratch: this.integers, limit };
    return readIntegers(this.kernels, reader, numbers, (start, count) =>
      this.kernels.unfoldSymbols(this.integers, count, factor, into + 4 * start, isSecond),
    );
  }
}

/** Where whole numbers go. Their limit times the factor is less than 2¹⁵. */
interface Halves {
  readonly factor: number;
  readonly limit: number;
  readonly into: Pointer;
  readonly isSecond: boolean;
}

import type { KernelMemory } from '../../kernel-memory';
import type { Kernels, Pointer } from '../../kernels/kernels';
import { align } from '../../kernels/pointer';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { BIT_STREAM_BYTES, BitReader, BitWriter } from '../bit-stream';
import { INTEGERS_BYTES, readIntegers, writeIntegers } from './integer-code';

const PAGE_BYTES = 65_536;

/** Memory and kernels for the codes of tensors, one after the other. It grows to the largest tensor. */
export class CodeScratch {
  private readonly memory: KernelMemory = new WebAssembly.Memory({ initial: 2, maximum: 65_536, shared: true });
  readonly kernels: Kernels = instantiateKernels(this.memory);
  private readonly integers: Pointer = 0;
  private readonly window: Pointer = INTEGERS_BYTES;
  private readonly rest: Pointer = this.window + BIT_STREAM_BYTES;
  readonly writer = new BitWriter(this.kernels, this.memory, this.window);

  /** A place for as many float32 as each of the lengths says, 16-byte aligned. It holds what was there before. */
  places<Lengths extends number[]>(...lengths: Lengths): { [Index in keyof Lengths]: Pointer } {
    let end = this.rest;
    const places = lengths.map(length => {
      const start = end;
      end += align(4 * length);
      return start;
    });
    const missing = end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE_BYTES));
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

  /** See {@link readIntegers}. */
  read(reader: BitReader, factor: number, into: Float32Array): number {
    return readIntegers(this.kernels, this.memory.buffer, reader, this.integers, factor, into);
  }
}

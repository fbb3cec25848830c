import { type Kernels, type Pointer } from '../../src/kernels/kernels';
import { referenceKernels } from './reference-kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';

/** Both implementations of the kernels, for `describe.each`. */
export const IMPLEMENTATIONS: [name: string, make: (memory: WebAssembly.Memory) => Kernels][] = [
  ['wasm', instantiateKernels],
  ['reference', referenceKernels],
];

export function sharedMemory(pages = 64): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
}

/** Hands out pieces of a memory, 16-byte aligned, filled with 0xA5 so that nothing is zero by accident. */
export class Pieces {
  constructor(
    readonly memory: WebAssembly.Memory,
    private next: Pointer = 64,
  ) {}

  bytes(byteCount: number): Pointer {
    const at = this.next;
    // A gap behind each, in which a test can see what was written past the end.
    this.next += 16 * Math.ceil(byteCount / 16) + 16;
    new Uint8Array(this.memory.buffer, at, this.next - at).fill(0xa5);
    return at;
  }

  float32(values: ArrayLike<number>): Pointer {
    const at = this.bytes(4 * values.length);
    new Float32Array(this.memory.buffer, at, values.length).set(values);
    return at;
  }

  uint32(values: ArrayLike<number>): Pointer {
    const at = this.bytes(4 * values.length);
    new Uint32Array(this.memory.buffer, at, values.length).set(values);
    return at;
  }
}

export function float32At(memory: WebAssembly.Memory, at: Pointer, count: number): Float32Array {
  return new Float32Array(memory.buffer, at, count);
}

export function uint32At(memory: WebAssembly.Memory, at: Pointer, count: number): Uint32Array {
  return new Uint32Array(memory.buffer, at, count);
}

/** Numbers in [0, 1), the same in every run. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function normalNumbers(seed: number): () => number {
  const random = randomNumbers(seed);
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** `count` float32 from a source of numbers. */
export function float32From(source: () => number, count: number): Float32Array {
  return Float32Array.from({ length: count }, source);
}

import { GradringError } from '../errors';
import type { Pointer } from '../kernels/kernels';

const PAGE_BYTES = 64 * 1024;
const MEBIBYTE = 1024 * 1024;

/**
 * Blocks of the one WebAssembly memory that a communicator's two threads and the kernels share. The user's thread alone
 * allocates and frees. The memory grows and never shrinks; untouched pages cost nothing.
 */
export class SharedHeap {
  readonly memory = new WebAssembly.Memory({ initial: 1, maximum: 65_536, shared: true });
  private readonly free = new Map<number, Pointer[]>();
  private end: Pointer = 64; // so that no block is at 0

  /** @returns a block of at least so many bytes, aligned to 16, its content undefined. */
  allocate(bytes: number): Pointer {
    const size = blockSize(bytes);
    const reused = this.free.get(size)?.pop();
    if (reused !== undefined) return reused;
    const block = this.end;
    const missing = block + size - this.memory.buffer.byteLength;
    if (missing > 0) {
      try {
        this.memory.grow(Math.ceil(missing / PAGE_BYTES));
      } catch (error) {
        const words = `No room for ${bytes} more bytes: the communicator's memory of at most 4 GiB holds ${block} already.`;
        throw new GradringError('ERR_OUT_OF_MEMORY', words, {}, { cause: error });
      }
    }
    this.end = block + size;
    return block;
  }

  /** Gives back a block of {@link allocate}, with the same number of bytes. */
  release(block: Pointer, bytes: number): void {
    const size = blockSize(bytes);
    const blocks = this.free.get(size) ?? [];
    blocks.push(block);
    this.free.set(size, blocks);
  }
}

/** Few different sizes, so that freed blocks fit again: powers of two, and from a mebibyte on whole mebibytes. */
function blockSize(bytes: number): number {
  if (bytes >= MEBIBYTE) return Math.ceil(bytes / MEBIBYTE) * MEBIBYTE;
  return Math.max(64, 2 ** Math.ceil(Math.log2(Math.max(1, bytes))));
}

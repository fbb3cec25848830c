import { ifAddressSpaceIsLimited, sharedMemory } from '../address-space';
import { GradringError } from '../errors';
import type { KernelMemory } from '../kernel-memory';
import type { Pointer } from '../kernels/kernels';

const PAGE_BYTES = 64 * 1024;
const MOST_BYTES = 2 ** 32;
const ALIGNMENT = 64;

/** A range of bytes that is not in use. */
interface Gap {
  start: Pointer;
  bytes: number;
}

/**
 * Allocates blocks of the WebAssembly memory that a communicator's two threads and the kernels share. Only the main
 * thread allocates and frees. First fit; adjacent gaps are joined. The memory grows and never shrinks. Untouched pages
 * cost nothing.
 */
export class SharedHeap {
  /** @throws GradringError `ERR_OUT_OF_MEMORY` if the system does not give it. */
  readonly memory: KernelMemory = sharedMemory(PAGE_BYTES, MOST_BYTES, "for the communicator's memory");
  /** The buffers of {@link memory} so far. It gets a new one when it grows; the old ones stay valid. */
  private readonly buffers = new WeakSet<ArrayBufferLike>();
  /** In ascending order. No gap touches another. */
  private readonly gaps: Gap[] = [];
  private end: Pointer = ALIGNMENT; // so that no block is at 0

  /** The buffer for new views. */
  get buffer(): ArrayBufferLike {
    const { buffer } = this.memory;
    this.buffers.add(buffer);
    return buffer;
  }

  /** Whether a view lies in this memory. */
  holds(view: ArrayBufferView): boolean {
    return this.buffers.has(view.buffer);
  }

  /**
   * @returns a block of at least that many bytes, aligned to 64. Its content is undefined.
   * @throws GradringError `ERR_OUT_OF_MEMORY`
   */
  allocate(bytes: number): Pointer {
    const size = blockSize(bytes);
    const at = this.gaps.findIndex(gap => gap.bytes >= size);
    if (at === -1) return this.extend(size);
    const gap = this.gaps[at]!;
    const block = gap.start;
    gap.start += size;
    gap.bytes -= size;
    if (gap.bytes === 0) this.gaps.splice(at, 1);
    return block;
  }

  /** Gives back a block of {@link allocate}, with the same number of bytes. */
  release(block: Pointer, bytes: number): void {
    let freed: Gap = { start: block, bytes: blockSize(bytes) };
    const following = this.gaps.findIndex(gap => gap.start > block);
    const at = following === -1 ? this.gaps.length : following;
    const [before, after] = [this.gaps[at - 1], this.gaps[at]];
    let from = at;
    let replaced = 0;
    if (before !== undefined && before.start + before.bytes === freed.start) {
      freed = { start: before.start, bytes: before.bytes + freed.bytes };
      from--;
      replaced++;
    }
    if (after !== undefined && freed.start + freed.bytes === after.start) {
      freed.bytes += after.bytes;
      replaced++;
    }
    this.gaps.splice(from, replaced, freed);
    if (freed.start + freed.bytes === this.end) {
      this.gaps.pop();
      this.end = freed.start;
    }
  }

  private extend(size: number): Pointer {
    const block = this.end;
    const missing = block + size - this.memory.buffer.byteLength;
    if (missing > 0) {
      try {
        this.memory.grow(Math.ceil(missing / PAGE_BYTES));
      } catch (error) {
        const why =
          block + size > MOST_BYTES
            ? `is limited to 4 GiB, and holds ${block} bytes already.`
            : `holds ${block} bytes, and the system gives no more.${ifAddressSpaceIsLimited()}`;
        const words = `There is no room for ${size} more bytes: the communicator's memory ${why}`;
        throw new GradringError('ERR_OUT_OF_MEMORY', words, {}, { cause: error });
      }
    }
    this.end = block + size;
    return block;
  }
}

function blockSize(bytes: number): number {
  return Math.ceil(Math.max(1, bytes) / ALIGNMENT) * ALIGNMENT;
}

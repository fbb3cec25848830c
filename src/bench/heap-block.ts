import type { Pointer } from '../kernels/pointer';
import type { SharedHeap } from '../memory/shared-heap';

/** So that no two arrays share a cache line. */
const ALIGNMENT = 64;

/** Places arrays one behind the other. */
export class Places {
  private end: Pointer;

  constructor(private readonly start: Pointer) {
    this.end = start;
  }

  /** The place of the next array. */
  next(bytes: number): Pointer {
    const at = this.end;
    this.end += ALIGNMENT * Math.ceil(bytes / ALIGNMENT);
    return at;
  }

  /** What all arrays take so far. */
  get bytes(): number {
    return this.end - this.start;
  }
}

/**
 * Runs with a block of the heap, which is released afterwards.
 *
 * @param layOut Places arrays from an address on. It must say how many bytes they take.
 * @throws ERR_OUT_OF_MEMORY
 */
export function withBlock<Layout extends { readonly bytes: number }, Result>(
  heap: SharedHeap,
  layOut: (start: Pointer) => Layout,
  run: (layout: Layout) => Result,
): Result {
  const { bytes } = layOut(0);
  const block = heap.allocate(bytes);
  try {
    return run(layOut(block));
  } finally {
    heap.release(block, bytes);
  }
}

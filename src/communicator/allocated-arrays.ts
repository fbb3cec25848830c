import { type ArrayOf, arrayOf, ELEMENT_BYTES, type ElementType, type NumericArray } from '../collectives/element-type';
import { invalidArgument } from '../errors';
import type { Pointer } from '../kernels/kernels';
import type { SharedHeap } from '../memory/shared-heap';

/** The memory of an array that the user has. */
export interface AllocatedBlock {
  readonly start: Pointer;
  readonly bytes: number;
  /** How many calls use it now. */
  users: number;
}

/** The arrays in the shared memory that the user has, until they are given back. */
export class AllocatedArrays {
  private readonly blocks = new Set<AllocatedBlock>();
  private readonly blockOf = new WeakMap<ArrayBufferView, AllocatedBlock>();

  constructor(private readonly heap: SharedHeap) {}

  /** See {@link Communicator.allocate}. */
  allocate<T extends ElementType>(type: T, elementCount: number): ArrayOf<T> {
    const bytes = elementCount * ELEMENT_BYTES[type];
    const start = this.heap.allocate(bytes);
    const array = arrayOf(type, this.heap.buffer, start, elementCount) as ArrayOf<T>;
    new Uint8Array(this.heap.buffer, start, bytes).fill(0);
    const block = { start, bytes, users: 0 };
    this.blocks.add(block);
    this.blockOf.set(array, block);
    return array;
  }

  /** See {@link Communicator.free}. */
  free(array: NumericArray): void {
    const block = this.blockOf.get(array);
    if (block === undefined || !this.blocks.has(block)) {
      throw invalidArgument('ring.free takes an array from ring.allocate, and only once.');
    }
    if (block.users > 0) throw invalidArgument('ring.free got an array that a call still uses. Await the call first.');
    this.blocks.delete(block);
    this.heap.release(block.start, block.bytes);
  }

  /**
   * The block in which a view lies, if it is in the shared memory.
   *
   * @param call The call that takes the view, for the message: `ring.allReduce`.
   * @throws GradringError `ERR_INVALID_ARGUMENT` if the view is there, but not in an array that the user has.
   */
  holding(view: ArrayBufferView, call: string): AllocatedBlock | undefined {
    if (!this.heap.holds(view)) return undefined;
    const { byteOffset: start, byteLength } = view;
    const block =
      this.blockOf.get(view) ?? [...this.blocks].find(each => start >= each.start && start < each.start + each.bytes);
    if (block !== undefined && this.blocks.has(block) && start + byteLength <= block.start + block.bytes) return block;
    throw invalidArgument(
      `${call} got an array that was given back by ring.free, or a part of one. Its memory may belong to another array by now.`,
    );
  }
}

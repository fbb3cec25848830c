import type { KernelMemory } from '../kernel-memory';
import type { Pointer, ReducedType, ReduceOperation } from '../kernels/kernels';
import type { Landing } from '../transport/data/landing';
import type { Range } from './chunks';
import type { CollectiveContext } from './collective-call';
import { ELEMENT_BYTES, type ElementType } from './element-type';

/** Received bytes are reduced in pieces that fit in a core's own cache. */
const PIECE_BYTES = 128 * 1024;

/** An array in the shared memory that a collective works on in place. */
export interface DenseArray<T extends ElementType = ElementType> {
  readonly type: T;
  readonly data: Pointer;
  readonly elementCount: number;
}

/** One whose elements can be reduced. */
export type ReducedArray = DenseArray<ReducedType>;

/** The bytes of all its elements. */
export function byteLengthOf({ type, elementCount }: DenseArray): number {
  return elementCount * ELEMENT_BYTES[type];
}

/** The bytes of an array, or of a part of it, as they are sent. */
export function bytesOf(
  memory: KernelMemory,
  { type, data, elementCount }: DenseArray,
  { start, count }: Range = { start: 0, count: elementCount },
): Uint8Array {
  return new Uint8Array(memory.buffer, data + start * ELEMENT_BYTES[type], count * ELEMENT_BYTES[type]);
}

/** A landing that reduces received bytes into a part of an array. They land in the scratch, one piece at a time. */
export function reducedInto(
  target: Uint8Array,
  { kernels, memory, scratch }: CollectiveContext,
  operation: ReduceOperation,
  type: ReducedType,
): Landing {
  const bytes = target.length;
  const pieceAt = (landed: number) => {
    const start = landed - (landed % PIECE_BYTES);
    return { start, end: Math.min(start + PIECE_BYTES, bytes) };
  };
  return {
    bytes,
    place: landed => {
      const { start, end } = pieceAt(landed);
      return new Uint8Array(memory.buffer, scratch + landed - start, end - landed);
    },
    advance: (landed, count) => {
      const { start, end } = pieceAt(landed);
      if (landed + count < end) return;
      kernels.reduce(operation, type, target.byteOffset + start, scratch, (end - start) / ELEMENT_BYTES[type]);
    },
  };
}

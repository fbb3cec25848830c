import type { HostRun } from '../transport/ring-place';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import { bytesOf, type ReducedArray, reducedInto } from './dense-array';
import { ELEMENT_BYTES } from './element-type';

/**
 * Adds the arrays of some ranks beside each other: a rank adds to each segment what its left neighbour sends, and sends
 * the sum on. So the last has the sum, added in the order of ranks. On the others the array is undefined afterwards.
 * Each sends n elements.
 */
export async function sumToLast(call: CollectiveCall, array: ReducedArray, { first, last }: HostRun): Promise<void> {
  const { rank, context } = call;
  const chunks = new Chunks(array.elementCount, 1, ELEMENT_BYTES[array.type]);
  for (let segment = 0; segment < chunks.segmentCount; segment++) {
    const bytes = bytesOf(context.memory, array, chunks.segment(0, segment));
    if (rank > first) await call.receiveTo(reducedInto(bytes, context, 'sum', array.type), rank - 1, segment);
    if (rank < last) await call.send(segment, bytes);
  }
}

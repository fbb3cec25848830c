import type { ReduceOperation } from '../kernels/kernels';
import { copiedInto } from '../transport/data/landing';
import { opposite, type Side } from '../transport/transport';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import { bytesOf, type DenseArray, reducedInto } from './dense-array';
import { ELEMENT_BYTES } from './element-type';

/** A rank's place in the tree, whose root is rank 0, with half the ring in a row on each side of it. */
interface Place {
  /** Where the root is; undefined for the root itself. */
  readonly inner: Side | undefined;
  /** Where those are that reach the root by way of this rank; the left first. */
  readonly outer: readonly Side[];
  /** Where the ring's one link leads that is no part of the tree; for the two ranks that have it. */
  readonly spare: Side | undefined;
}

/**
 * Reduces an array of all ranks on its way to rank 0, and sends the result back the same way, segment by segment. For N
 * ranks and n elements: 2⌈(N − 1)/2⌉ hops, each after the one before, but 2(N − 1) frames in all for a segment, where
 * the ring has 2N(N − 1) for N of them. In all the bytes are as many as there; a rank sends n to 2n elements.
 *
 * Rank 0 computes x₀ + (x₋₁ + (x₋₂ + …)) + (x₁ + (x₂ + …)), and all others copy that: all end with the same bits.
 *
 * Nobody knows whether the next rank is there before it sends, so there may be four segments (`FRAMES_AHEAD`) at most.
 */
export async function reduceAndBroadcast(
  call: CollectiveCall,
  array: DenseArray,
  operation: ReduceOperation,
): Promise<void> {
  const { context } = call;
  const { inner, outer, spare } = placeIn(call);
  // Whole, if it can be: each frame costs those who wait for a core more than to begin earlier spares.
  const chunks = new Chunks(array.elementCount, 1, ELEMENT_BYTES[array.type]);
  const segments = Array.from({ length: chunks.segmentCount }, (_, segment) =>
    bytesOf(context.memory, array, chunks.segment(0, segment)),
  );
  const neighbour = (side: Side) => call.leftBy(side === 'left' ? 1 : -1);
  /** Passes a segment of the result on; its frames have numbers after those of what it is made of. */
  const pass = async (segment: number) => {
    await Promise.all(outer.map(side => call.send(segments.length + segment, segments[segment]!, { side })));
  };

  const reduceAll = async (): Promise<void> => {
    for (const [segment, bytes] of segments.entries()) {
      for (const side of outer) {
        await call.receiveTo(reducedInto(bytes, context, operation, array.type), neighbour(side), segment, side);
      }
      if (inner === undefined) await pass(segment);
      else await call.send(segment, bytes, { side: inner });
    }
  };
  const takeResult = async (inner: Side): Promise<void> => {
    for (const [segment, bytes] of segments.entries()) {
      await call.receiveTo(copiedInto(bytes), neighbour(inner), segments.length + segment, inner);
      await pass(segment);
    }
  };
  /** So that every rank waits for one on its left from the start: there it meets who is in another call. */
  const closeRing = async (side: Side): Promise<void> => {
    const part = 2 * segments.length;
    if (side === 'right') await call.send(part, new Uint8Array(0));
    else await call.receive(neighbour(side), part);
  };
  await Promise.all([reduceAll(), inner && takeResult(inner), spare && closeRing(spare)]);
}

function placeIn({ rank, worldSize }: CollectiveCall): Place {
  const hops = worldSize - 1;
  const lengths = { right: Math.ceil(hops / 2), left: Math.floor(hops / 2) };
  const goesOn = (side: Side, distance: number): Side[] => (distance < lengths[side] ? [side] : []);
  const spare = rank === lengths.right ? 'right' : rank === (lengths.right + 1) % worldSize ? 'left' : undefined;
  if (rank === 0) return { inner: undefined, outer: [...goesOn('left', 0), ...goesOn('right', 0)], spare };
  const arm = rank <= lengths.right ? 'right' : 'left';
  return { inner: opposite(arm), outer: goesOn(arm, arm === 'right' ? rank : worldSize - rank), spare };
}

import type { ReduceOperation } from '../kernels/kernels';
import { copyBytes, copyOf } from '../memory/buffers';
import { copiedInto } from '../transport/data/landing';
import { type HostRun, opposite, type Side } from '../transport/ring-place';
import { allGatherBodies, barrier } from './all-gather';
import { BLOCK_SEGMENTS, Chunks, type Range } from './chunks';
import { checkLength, type CollectiveCall } from './collective-call';
import { byteLengthOf, bytesOf, type DenseArray, type ReducedArray, reducedInto } from './dense-array';
import { ELEMENT_BYTES } from './element-type';
import { runPipeline } from './pipeline';

/** A segment of a broadcast. A rank forwards complete segments only, so shorter ones are faster here. */
const CHAIN_SEGMENT_BYTES = 256 * 1024;

/** Sending this many bytes takes about as long as a hop. */
const HOP_BYTES = 48 * 1024;

/** How an array is all-reduced: {@link ringPasses} or {@link reduceGathered}. */
export type AllReduceAlgorithm = 'ring' | 'gather';

/** Large arrays go round the ring. Small ones are gathered, and every rank reduces them; see {@link isSmall}. */
export function algorithmFor(worldSize: number, bytes: number): AllReduceAlgorithm {
  return isSmall(worldSize, bytes) ? 'gather' : 'ring';
}

/** All-reduce, by the algorithm that {@link algorithmFor} returns. */
export async function allReduce(call: CollectiveCall, array: ReducedArray, operation: ReduceOperation): Promise<void> {
  if (isSmall(call.worldSize, byteLengthOf(array))) await reduceGathered(call, array, operation);
  else await ringPasses(call, array, operation, 'all-reduce');
}

/** The first half of the ring's all-reduce. Reduces chunk r on rank r. The values of the other chunks are undefined. */
export async function reduceScatter(
  call: CollectiveCall,
  array: ReducedArray,
  operation: ReduceOperation,
): Promise<Range> {
  if (isSmall(call.worldSize, byteLengthOf(array))) await reduceGathered(call, array, operation);
  else await ringPasses(call, array, operation, 'reduce-scatter');
  return new Chunks(array.elementCount, call.worldSize, ELEMENT_BYTES[array.type]).chunk(call.rank);
}

/**
 * Sends the root's array round the ring, segment by segment. Each rank but the last sends n elements. Large arrays go
 * in one direction, N − 1 hops; small ones go in both, half the ring each.
 *
 * All ranks meet first. Otherwise the root would fill every buffer before the others read, and no heartbeat gets
 * through a link whose buffers are full. And a root would never learn that the others named another root.
 */
export async function broadcast(call: CollectiveCall, array: DenseArray, root: number): Promise<void> {
  if (call.worldSize === 1) return;
  await barrier(call);
  const small = isSmall(call.worldSize, byteLengthOf(array));
  const hops = call.worldSize - 1;
  const leftHops = small ? Math.floor(hops / 2) : 0;
  const distance = (call.rank - root + call.worldSize) % call.worldSize;
  const directions = [
    { side: 'right', distance, hops: hops - leftHops },
    { side: 'left', distance: (call.worldSize - distance) % call.worldSize, hops: leftHops },
  ] as const;
  await Promise.all(directions.map(direction => passOn(call, array, root, direction)));
}

/** One direction of a broadcast: to `hops` ranks on that side of the root. This rank is `distance` hops from it. */
async function passOn(
  call: CollectiveCall,
  array: DenseArray,
  root: number,
  { side, distance, hops }: { side: Side; distance: number; hops: number },
): Promise<void> {
  if (distance > hops || hops === 0) return;
  const { memory } = call.context;
  const elementBytes = ELEMENT_BYTES[array.type];
  const chunks = new Chunks(array.elementCount, 1, elementBytes, CHAIN_SEGMENT_BYTES);
  for (let segment = 0; segment < chunks.segmentCount; segment++) {
    const bytes = bytesOf(memory, array, chunks.segment(0, segment));
    if (distance > 0) await call.receiveTo(copiedInto(bytes), root, segment, opposite(side));
    if (distance < hops) await call.send(segment, bytes, { side, origin: root });
  }
}

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

/**
 * Ring all-reduce (Patarasuk and Yuan, 2009), pipelined by segments. For N ranks and n elements it takes N − 1 rounds
 * of reduce-scatter and N − 1 of all-gather. Each rank sends 2(N − 1)/N · n elements, the least possible. Chunk c is
 * summed in the order of ranks c + 1, c + 2, …, c and then copied, so all ranks end with the same bits.
 */
async function ringPasses(
  call: CollectiveCall,
  array: ReducedArray,
  operation: ReduceOperation,
  upTo: 'reduce-scatter' | 'all-reduce',
): Promise<void> {
  const { memory } = call.context;
  const chunks = new Chunks(array.elementCount, call.worldSize, ELEMENT_BYTES[array.type]);
  const hops = call.worldSize - 1;
  // In round t this rank sends chunk rank − 1 − t and receives chunk rank − 2 − t. After N − 1 rounds of reduce-scatter
  // it has all of chunk `rank`, and sends that next. So the all-gather continues with the same numbers.
  const rounds = (upTo === 'all-reduce' ? 2 : 1) * hops;
  // A few segments of each chunk take all their rounds before the next ones begin. So a received segment is sent while
  // it is in the cache.
  const block = Math.min(BLOCK_SEGMENTS, chunks.segmentCount);
  const roundOf = (frame: number): number => Math.floor(frame / block) % rounds;
  const rangeOf = (frame: number, distance: number): Range => {
    const segment = Math.floor(frame / (rounds * block)) * block + (frame % block);
    return chunks.segment(call.leftBy(distance + roundOf(frame)), segment);
  };
  const left = call.leftBy(1);
  await runPipeline({
    frameCount: rounds * chunks.segmentCount,
    lead: block,
    // Segments are sent from the array itself, and received into it. A reduced segment may overwrite the one that was
    // sent from there: the sum contains that one, so it has been received.
    send: frame => call.send(frame, bytesOf(memory, array, rangeOf(frame, 1))),
    receive: frame => {
      const target = bytesOf(memory, array, rangeOf(frame, 2));
      const landing =
        roundOf(frame) < hops ? reducedInto(target, call.context, operation, array.type) : copiedInto(target);
      return call.receiveTo(landing, left, frame);
    },
  });
}

/**
 * Whether to gather all arrays and not reduce them on their way. That takes ⌈(N − 1)/2⌉ hops instead of 2(N − 1), but
 * N/2 times the bytes, and they arrive in memory of their own, not where they are used. A hop takes about as long as
 * {@link HOP_BYTES}. Such an array has at most 86 KiB.
 */
function isSmall(worldSize: number, bytes: number): boolean {
  const hopsSaved = 2 * (worldSize - 1) - Math.ceil((worldSize - 1) / 2);
  const bytesMore = ((worldSize - 1) * (1 - 2 / worldSize) + 1) * bytes;
  return bytesMore <= hopsSaved * HOP_BYTES;
}

/** Gathers the arrays of all ranks, and reduces them in the same order as the ring. */
async function reduceGathered(call: CollectiveCall, array: ReducedArray, operation: ReduceOperation): Promise<void> {
  const { worldSize, context } = call;
  const { kernels, memory, scratch } = context;
  const elementBytes = ELEMENT_BYTES[array.type];
  const whole = bytesOf(memory, array);
  const bodies = await allGatherBodies(call, copyOf(whole));
  bodies.forEach((body, rank) => checkLength(rank, body.length, whole.length));
  const chunks = new Chunks(array.elementCount, worldSize, elementBytes);
  for (let chunk = 0; chunk < worldSize; chunk++) {
    const range = chunks.chunk(chunk);
    const target = bytesOf(memory, array, range);
    for (let i = 1; i <= worldSize && range.count > 0; i++) {
      const from = range.start * elementBytes;
      const operand = bodies[(chunk + i) % worldSize]!.subarray(from, from + target.length);
      if (i === 1) {
        copyBytes(target, operand);
      } else {
        copyBytes(new Uint8Array(memory.buffer, scratch, operand.length), operand);
        kernels.reduce(operation, array.type, target.byteOffset, scratch, range.count);
      }
    }
  }
}

import type { ElementType, Pointer, ReduceOperation } from '../kernels/kernels';
import { protocolError } from '../wire/frame';
import { barrier } from './all-gather';
import { Chunks, type Range } from './chunks';
import type { CollectiveCall } from './collective-call';
import { ELEMENT_BYTES } from './element-type';
import { runPipeline } from './pipeline';

/** An array in the shared memory that a ring collective works on in place. */
export interface DenseArray {
  readonly type: ElementType;
  readonly data: Pointer;
  readonly elementCount: number;
}

/**
 * Ring all-reduce (Patarasuk and Yuan, 2009), pipelined by segments. For N ranks and n elements: N − 1 steps of
 * reduce-scatter, N − 1 of all-gather, 2(N − 1)/N · n elements sent by each rank, which is the least possible.
 * Chunk c is summed in the order of ranks c + 1, c + 2, …, c and then copied, so all ranks end with the same bits.
 */
export async function allReduce(call: CollectiveCall, array: DenseArray, operation: ReduceOperation): Promise<void> {
  await ringPasses(call, array, operation, 'all-reduce');
}

/** The first half of {@link allReduce}: chunk r of rank r is reduced, the other chunks hold partial results. */
export async function reduceScatter(
  call: CollectiveCall,
  array: DenseArray,
  operation: ReduceOperation,
): Promise<Range> {
  await ringPasses(call, array, operation, 'reduce-scatter');
  return new Chunks(array.elementCount, call.worldSize, ELEMENT_BYTES[array.type]).chunk(call.rank);
}

/**
 * From the root round the ring, segment by segment: N − 1 hops, n elements sent by each rank but the last.
 *
 * All ranks meet first. Else the root would send before the others are there to read, up to the end of every buffer, and
 * a link that is not read lets no heartbeat through; and a root would never learn that others named another root.
 */
export async function broadcast(call: CollectiveCall, array: DenseArray, root: number): Promise<void> {
  if (call.worldSize === 1) return;
  await barrier(call);
  const { memory } = call.context;
  const elementBytes = ELEMENT_BYTES[array.type];
  const chunks = new Chunks(array.elementCount, 1, elementBytes);
  const isLast = call.leftBy(-1) === root;
  for (let segment = 0; segment < chunks.segmentCount; segment++) {
    const range = chunks.segment(0, segment);
    if (call.rank === root) {
      await call.send(segment, copyOut(memory, array, range));
    } else {
      const frame = await call.receive(root, segment);
      if (!isLast) await call.forward(frame);
      checkLength(frame.body, range.count * elementBytes);
      new Uint8Array(memory.buffer, array.data + range.start * elementBytes, frame.body.length).set(frame.body);
    }
  }
}

async function ringPasses(
  call: CollectiveCall,
  array: DenseArray,
  operation: ReduceOperation,
  upTo: 'reduce-scatter' | 'all-reduce',
): Promise<void> {
  const { kernels, memory, scratch } = call.context;
  const elementBytes = ELEMENT_BYTES[array.type];
  const chunks = new Chunks(array.elementCount, call.worldSize, elementBytes);
  const hops = call.worldSize - 1;
  // In step t chunk rank − 1 − t leaves and chunk rank − 2 − t comes. After N − 1 steps of reducing, this rank has all of
  // chunk `rank`, which is the next to leave: the all-gather goes on with the same numbers.
  const rangeOf = (frame: number, distance: number): Range =>
    chunks.segment(call.leftBy(distance + Math.floor(frame / chunks.segmentCount)), frame % chunks.segmentCount);
  const left = call.leftBy(1);
  await runPipeline({
    frameCount: (upTo === 'all-reduce' ? 2 : 1) * hops * chunks.segmentCount,
    lead: chunks.segmentCount,
    send: frame => call.send(frame, copyOut(memory, array, rangeOf(frame, 1))),
    receive: async frame => {
      const { start, count } = rangeOf(frame, 2);
      const { body } = await call.receive(left, frame);
      checkLength(body, count * elementBytes);
      const target = array.data + start * elementBytes;
      if (frame < hops * chunks.segmentCount) {
        new Uint8Array(memory.buffer, scratch, body.length).set(body);
        kernels.reduce(operation, array.type, target, scratch, count);
      } else {
        new Uint8Array(memory.buffer, target, body.length).set(body);
      }
    },
  });
}

/**
 * The bytes to send, as a copy: ZeroMQ may still hold a large message when the collective has ended, and the array is
 * then the caller's again.
 */
function copyOut(memory: WebAssembly.Memory, { type, data }: DenseArray, { start, count }: Range): Uint8Array {
  const bytes = new Uint8Array(count * ELEMENT_BYTES[type]);
  bytes.set(new Uint8Array(memory.buffer, data + start * ELEMENT_BYTES[type], bytes.length));
  return bytes;
}

function checkLength(body: Uint8Array, bytes: number): void {
  if (body.length !== bytes) throw protocolError(`holds ${body.length} bytes where ${bytes} are due`);
}

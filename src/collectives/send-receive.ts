import { FRAMES_AHEAD } from '../transport/transport';
import { copiedInto } from '../transport/data/landing';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import { bytesOf, type DenseArray } from './dense-array';
import { ELEMENT_BYTES } from './element-type';

/**
 * Moves every rank's array one place to the right, in place, segment by segment: 1 hop, n elements sent by each rank. A
 * segment is sent before the left neighbour's segment overwrites it.
 */
export async function sendReceive(call: CollectiveCall, array: DenseArray): Promise<void> {
  if (call.worldSize === 1) return;
  const chunks = new Chunks(array.elementCount, 1, ELEMENT_BYTES[array.type]);
  const segmentAt = (segment: number) => bytesOf(call.context.memory, array, chunks.segment(0, segment));
  const left = call.leftBy(1);
  let sent = 0;
  for (let received = 0; received < chunks.segmentCount; received++) {
    while (sent < Math.min(chunks.segmentCount, received + FRAMES_AHEAD)) {
      await call.send(sent, segmentAt(sent));
      sent += 1;
    }
    await call.receiveTo(copiedInto(segmentAt(received)), left, received);
  }
}

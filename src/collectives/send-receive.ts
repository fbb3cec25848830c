import { FRAMES_AHEAD } from '../transport/transport';
import { copyBytes, copyOf } from '../transport/copy-bytes';
import { protocolError } from '../wire/frame';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import type { DenseArray } from './dense-ring';
import { ELEMENT_BYTES } from './element-type';

/**
 * Every rank's array goes one place to the right, in place, segment by segment: 1 hop, n elements sent by each rank. A
 * segment is copied out before the left neighbour's takes its place.
 */
export async function sendReceive(call: CollectiveCall, array: DenseArray): Promise<void> {
  if (call.worldSize === 1) return;
  const elementBytes = ELEMENT_BYTES[array.type];
  const chunks = new Chunks(array.elementCount, 1, elementBytes);
  const bytesOf = (segment: number): Uint8Array => {
    const { start, count } = chunks.segment(0, segment);
    return new Uint8Array(call.context.memory.buffer, array.data + start * elementBytes, count * elementBytes);
  };
  const left = call.leftBy(1);
  let sent = 0;
  for (let received = 0; received < chunks.segmentCount; received++) {
    while (sent < Math.min(chunks.segmentCount, received + FRAMES_AHEAD)) {
      await call.send(sent, copyOf(bytesOf(sent)));
      sent += 1;
    }
    const frame = await call.receive(left, received);
    const target = bytesOf(received);
    if (frame.bytes !== target.length) throw protocolError(`holds ${frame.bytes} bytes where ${target.length} are due`);
    copyBytes(target, frame.body);
    frame.release();
  }
}

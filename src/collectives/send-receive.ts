import { copyBytes, copyOf } from '../transport/copy-bytes';
import { protocolError } from '../wire/frame';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import type { DenseArray } from './dense-ring';
import { ELEMENT_BYTES } from './element-type';
import { runPipeline } from './pipeline';

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
  await runPipeline({
    frameCount: chunks.segmentCount,
    lead: chunks.segmentCount,
    send: segment => call.send(segment, copyOf(bytesOf(segment))),
    receive: async segment => {
      const frame = await call.receive(left, segment);
      const target = bytesOf(segment);
      if (frame.body.length !== target.length) {
        throw protocolError(`holds ${frame.body.length} bytes where ${target.length} are due`);
      }
      copyBytes(target, frame.body);
      frame.release();
    },
  });
}

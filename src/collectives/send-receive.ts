import { copiedInto } from '../transport/data/landing';
import { deferred } from '../transport/deferred';
import { Chunks } from './chunks';
import type { CollectiveCall } from './collective-call';
import { bytesOf, type DenseArray } from './dense-array';
import { ELEMENT_BYTES } from './element-type';
import { runPipeline } from './pipeline';

/**
 * Moves every rank's array one place to the right, in place, segment by segment: 1 hop, n elements sent by each rank. A
 * segment is sent before the left neighbour's segment overwrites it.
 *
 * The first segment fits in a lane. From then on this rank receives while it sends: if the neighbours are in another
 * call, they may read nothing of what is sent, but a frame of the left one shows it.
 */
export async function sendReceive(call: CollectiveCall, array: DenseArray): Promise<void> {
  if (call.worldSize === 1) return;
  const chunks = new Chunks(array.elementCount, 1, ELEMENT_BYTES[array.type]);
  const segmentAt = (segment: number) => bytesOf(call.context.memory, array, chunks.segment(0, segment));
  const left = call.leftBy(1);
  const sent = Array.from({ length: chunks.segmentCount }, () => deferred());
  await runPipeline({
    frameCount: chunks.segmentCount,
    lead: chunks.segmentCount,
    send: async segment => {
      await call.send(segment, segmentAt(segment));
      sent[segment]!.resolve();
    },
    receive: async segment => {
      await sent[segment]!.promise;
      await call.receiveTo(copiedInto(segmentAt(segment)), left, segment);
    },
  });
}

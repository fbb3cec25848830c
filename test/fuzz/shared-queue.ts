import { QUEUE_BYTES, SharedQueue } from '../../src/transport/data/shared-queue';
import type { Target } from './fuzz';
import { demand, refusalOf } from './refusal';

/** As much of a queue as is mutated: the counts, and the first bytes. */
const HEAD_BYTES = 1024;

/** As the transport reads: a head, or a piece. */
const READS = [96, 1, 300_000];

const memory = new ArrayBuffer(QUEUE_BYTES);

/** The begin of the memory that neighbours share; the rest of it is empty. */
export const sharedQueueTarget: Target = {
  name: 'shared-queue',
  seeds: () =>
    [0, 100, 900].map(length => {
      new Uint8Array(memory).fill(0);
      new SharedQueue(memory, 0).write(Buffer.alloc(length, 9), false);
      return { bytes: new Uint8Array(memory.slice(0, HEAD_BYTES)) };
    }),
  run: bytes => {
    const head = new Uint8Array(memory, 0, HEAD_BYTES).fill(0);
    head.set(bytes.subarray(0, HEAD_BYTES));
    const receiver = new SharedQueue(memory, 0);
    let come = 0;
    try {
      for (let reads = 0; ; reads++) {
        const place = Buffer.alloc(READS[reads % READS.length]);
        const count = receiver.read(place);
        demand(count <= place.length, 'More was read than there is place for.');
        if (count === 0) break;
        come += count;
        demand(come <= QUEUE_BYTES, 'There is no end of bytes.');
        receiver.claimWake('sender');
      }
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    return { outcome: `accepted: ${come === 0 ? 'none' : come > HEAD_BYTES ? 'many' : 'some'}` };
  },
};

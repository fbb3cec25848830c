const { QUEUE_BYTES, SharedQueue } = require('../../dist/transport/shared-queue');
const { demand, refusalOf } = require('./refusal');

/** As much of a queue as is mutated: the counts, and the first entries. */
const HEAD_BYTES = 1024;

const memory = new ArrayBuffer(QUEUE_BYTES);

/** The begin of the memory that neighbours share; the rest of it is empty. @type {import('./fuzz').Target} */
const sharedQueueTarget = {
  name: 'shared-queue',
  seeds: () =>
    [1, 2, 3].map(frames => {
      new Uint8Array(memory).fill(0);
      const sender = new SharedQueue(memory, 0);
      for (let i = 0; i < frames; i++) sender.put(Buffer.alloc(64, 1 + i), Buffer.alloc(50 * i, 9), 0, i === 1);
      return { bytes: new Uint8Array(memory.slice(0, HEAD_BYTES)) };
    }),
  run: bytes => {
    const head = new Uint8Array(memory, 0, HEAD_BYTES).fill(0);
    head.set(bytes.subarray(0, HEAD_BYTES));
    const receiver = new SharedQueue(memory, 0);
    let frames = 0;
    try {
      for (let next; (next = receiver.take(0)) !== undefined; frames++) {
        const { header, body } = next.frame;
        demand(header.length <= 512, 'A header is longer than any.');
        demand(body.buffer === memory && body.byteOffset + body.length <= QUEUE_BYTES, 'A body lies elsewhere.');
        demand(frames < QUEUE_BYTES / 64, 'There is no end of frames.');
        next.free();
      }
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    return { outcome: `accepted: ${Math.min(frames, 4)} frames` };
  },
};

module.exports = { sharedQueueTarget };

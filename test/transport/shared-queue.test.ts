import { QUEUE_BYTES, SharedQueue } from '../../src/transport/data/shared-queue';
import { random } from '../support/random';

/** Both ends of a queue. */
function bothEnds(offset = 0, hasCore = true): { memory: ArrayBuffer; sender: SharedQueue; receiver: SharedQueue } {
  const memory = new ArrayBuffer(offset + QUEUE_BYTES + 64);
  return {
    memory,
    sender: new SharedQueue(memory, offset, hasCore),
    receiver: new SharedQueue(memory, offset, hasCore),
  };
}

/** The bytes of an endless stream, from a place on. */
function streamAt(start: number, length: number): Buffer {
  const words = new Uint32Array(Math.ceil(length / 4) + 2);
  const first = Math.floor(start / 4);
  words.forEach((_, i) => (words[i] = Math.imul(first + i, 0x9e37_79b1)));
  return Buffer.from(words.buffer, start % 4, length);
}

const some = (length: number) => Buffer.alloc(length, 7);

function fillUp(sender: SharedQueue): number {
  let written = 0;
  for (let count; (count = sender.write(some(100_000), false)) > 0;) written += count;
  return written;
}

test.each([true, false])(
  'bytes come out as they were put in, however cut, many times round; a core each: %p',
  hasCore => {
    const { sender, receiver, memory } = bothEnds(128, hasCore);
    const draw = random(1);
    const sizes = [1, 63, 64, 65, 5_000, 100_000, 600_000, 3_000_000];
    const size = () => sizes[Math.floor(draw() * sizes.length)]!;
    let [written, read, told] = [0, 0, 0];
    while (read < 12_000_000) {
      if (draw() < 0.5) {
        const source = streamAt(written, size());
        const more = draw() < 0.3;
        const count = sender.write(source, more);
        written += count;
        if (!more || count < source.length) told = written;
      } else {
        const place = Buffer.alloc(size());
        const count = receiver.read(place);
        expect(count).toBe(Math.min(place.length, told - read));
        expect(place.subarray(0, count).equals(streamAt(read, count))).toBe(true);
        read += count;
      }
    }
    const beside = new Uint8Array(memory);
    expect([...beside.subarray(0, 128), ...beside.subarray(128 + QUEUE_BYTES)].every(byte => byte === 0)).toBe(true);
  },
);

test('a receiver with a core is told of what is written by pieces, one without of all at once', () => {
  expect(bothEnds(0, true).sender.write(some(1_000_000), false)).toBe(256 * 1024);
  expect(bothEnds(0, false).sender.write(some(1_000_000), false)).toBe(1_000_000);
});

test('counts of bytes begin again at 2^30, and go past 2^32', () => {
  const { sender, receiver, memory } = bothEnds();
  const [written, read] = [0, 16];
  const words = new Uint32Array(memory);
  const bytes = some(1_250_001);
  const place = Buffer.alloc(bytes.length);
  for (let at = 0; at < 2 ** 32 + 10_000_000;) {
    const count = sender.write(bytes, false);
    if (count === 0 || receiver.read(place) !== count) throw new Error(`Lost at ${at}.`);
    at += count;
    if (words[written] !== at % 2 ** 30 || words[read] !== at % 2 ** 30) throw new Error(`Miscounted at ${at}.`);
  }
});

test('when it is full nothing is put in until something is read', () => {
  const { sender, receiver } = bothEnds();
  expect(fillUp(sender)).toBe(2 * 1024 * 1024);
  expect(sender.write(some(10), false)).toBe(0);
  expect(receiver.read(Buffer.alloc(4))).toBe(4);
  expect(sender.write(some(10), false)).toBe(4);
});

test('what is to be told of later is told of when there is no more room, too', () => {
  const { sender, receiver } = bothEnds();
  expect(sender.write(some(10), true)).toBe(10);
  expect(receiver.read(Buffer.alloc(100))).toBe(0);
  expect(sender.write(some(20), false)).toBe(20);
  expect(receiver.read(Buffer.alloc(100))).toBe(30);
  const room = fillUp(sender);
  receiver.read(Buffer.alloc(10));
  expect([sender.write(some(10), true), sender.write(some(10), true)]).toEqual([10, 0]);
  expect(receiver.read(Buffer.alloc(3_000_000))).toBe(room);
});

test('an end that sleeps is to be woken once; a sender when there is room for much', () => {
  const { sender, receiver } = bothEnds();
  expect(sender.claimWake('receiver')).toBe(false);
  receiver.sleep('receiver');
  expect([sender.claimWake('receiver'), sender.claimWake('receiver')]).toEqual([true, false]);
  fillUp(sender);
  sender.sleep('sender');
  receiver.read(Buffer.alloc(400_000));
  expect([sender.claimWake('receiver'), receiver.claimWake('sender')]).toEqual([false, false]);
  receiver.read(Buffer.alloc(200_000));
  expect([receiver.claimWake('sender'), receiver.claimWake('sender')]).toEqual([true, false]);
});

test('a sender is woken for the room that there is, also where counts begin again', () => {
  const { sender, receiver } = bothEnds();
  const place = Buffer.alloc(2 ** 20);
  for (let at = 0; at < 2 ** 30 - 2 ** 20;) {
    const count = sender.write(some(2 ** 18), false);
    receiver.read(place);
    at += count;
  }
  expect(fillUp(sender)).toBe(2 ** 21); // up to 2^30 + 2^20
  sender.sleep('sender');
  expect(receiver.read(place.subarray(0, 2 ** 19 - 1))).toBe(2 ** 19 - 1);
  expect(receiver.claimWake('sender')).toBe(false);
  expect(receiver.read(place.subarray(0, 1))).toBe(1);
  expect(receiver.claimWake('sender')).toBe(true);
  expect(fillUp(sender)).toBe(2 ** 19);
  expect(receiver.read(Buffer.alloc(2 ** 22))).toBe(2 ** 21);
});

test('closed, it touches nothing', () => {
  const { sender, receiver, memory } = bothEnds();
  sender.write(some(10), false);
  sender.sleep('sender');
  const before = Buffer.from(memory.slice(0));
  for (const end of [sender, receiver]) end.close();
  expect(sender.write(some(10), false)).toBe(0);
  expect(receiver.read(Buffer.alloc(10))).toBe(0);
  expect(receiver.claimWake('sender')).toBe(false);
  receiver.sleep('receiver');
  expect(before.equals(Buffer.from(memory))).toBe(true);
});

test('a sender that claims to have written more than there can be is an error', () => {
  const { memory, receiver } = bothEnds();
  new Uint32Array(memory)[0] = 2 * 1024 * 1024 + 1;
  expect(() => receiver.read(Buffer.alloc(10))).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});

test('a receiver that claims to have read what was never written gets nothing', () => {
  const { memory, sender } = bothEnds();
  new Uint32Array(memory)[16] = 2 ** 32 - 3 * 1024 * 1024;
  const before = Buffer.from(memory.slice(0));
  expect(sender.write(some(300_000), false)).toBe(0);
  expect(before.equals(Buffer.from(memory))).toBe(true);
});

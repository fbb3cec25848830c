import { LARGEST_BODY, QUEUE_BYTES, SharedQueue } from '../../src/transport/shared-queue';
import { random } from '../support/random';

/** Both ends of a queue. */
function bothEnds(offset = 0): { memory: ArrayBuffer; sender: SharedQueue; receiver: SharedQueue } {
  const memory = new ArrayBuffer(offset + QUEUE_BYTES + 64);
  return { memory, sender: new SharedQueue(memory, offset), receiver: new SharedQueue(memory, offset) };
}

const bytes = (length: number, seed: number) => Buffer.alloc(length, Buffer.from([seed, seed >> 8, 7, 11, 13]));

/** Takes a frame, and has what it says outlive it. */
function taken(receiver: SharedQueue, after = 0) {
  const next = receiver.take(after);
  if (next === undefined) return undefined;
  const { header, body, bulk } = next.frame;
  const copy = { header: Buffer.from(header), body: Buffer.from(body), bulk };
  next.free();
  return copy;
}

test('frames of all sizes come out as they were put in, many times round', () => {
  const { sender, receiver, memory } = bothEnds(128);
  const draw = random(1);
  const sizes = [0, 1, 63, 64, 65, 5_000, 100_000, LARGEST_BODY - 1, LARGEST_BODY];
  const sent: { header: Buffer; body: Buffer; bulk: boolean }[] = [];
  let received = 0;
  for (let i = 0; received < 2_000; i++) {
    const isPutting = i < 2_000 && draw() < 0.6;
    if (isPutting) {
      const body = bytes(sizes[Math.floor(draw() * sizes.length)]!, i);
      const frame = { header: bytes(Math.floor(draw() * 513), i + 1), body, bulk: draw() < 0.5 };
      if (sender.put(frame.header, frame.body, 0, frame.bulk)) sent.push(frame);
    }
    const next = draw() < 0.5 ? taken(receiver) : undefined;
    if (next === undefined) {
      if (i > 2_000 && received === sent.length) break;
      continue;
    }
    const due = sent[received++]!;
    expect(next.bulk).toBe(due.bulk);
    expect(next.header.equals(due.header) && next.body.equals(due.body)).toBe(true);
  }
  expect(received).toBe(sent.length);
  expect(received).toBeGreaterThan(1_000);
  const beside = new Uint8Array(memory);
  expect([...beside.subarray(0, 128), ...beside.subarray(128 + QUEUE_BYTES)].every(byte => byte === 0)).toBe(true);
});

test('counts of bytes go past 2^32', () => {
  const { sender, receiver } = bothEnds();
  const body = bytes(LARGEST_BODY, 3);
  for (let i = 0; i < 2 ** 32 / LARGEST_BODY + 50; i++) {
    if (!sender.put(Buffer.of(i & 255), body, 0, false)) throw new Error(`No room for frame ${i}.`);
    const next = receiver.take(0)!;
    if (next.frame.header[0] !== (i & 255) || next.frame.body.length !== LARGEST_BODY) throw new Error(`Frame ${i}.`);
    next.free();
  }
});

test('when it is full nothing is put in until a frame is freed; a frame is kept whole until then', () => {
  const { sender, receiver } = bothEnds();
  let count = 0;
  while (sender.put(Buffer.of(count), bytes(LARGEST_BODY, count), 0, true)) count += 1;
  expect(count).toBe(8); // twice a pipeline's window
  const frames = Array.from({ length: count }, () => receiver.take(0)!);
  expect(receiver.take(0)).toBeUndefined();
  frames[1]!.free(); // room is made in order
  expect(sender.put(Buffer.of(99), bytes(LARGEST_BODY, 99), 0, true)).toBe(false);
  frames[0]!.free();
  expect(sender.put(Buffer.of(99), bytes(LARGEST_BODY, 99), 0, true)).toBe(true);
  for (const [i, { frame }] of frames.slice(2).entries())
    expect(frame.body.equals(bytes(LARGEST_BODY, i + 2))).toBe(true);
  frames.slice(2).forEach(({ free }) => free());
  expect(taken(receiver)!.header[0]).toBe(99);
});

test('a frame is not taken before those that were sent another way before it', () => {
  const { sender, receiver } = bothEnds();
  sender.put(Buffer.of(1), bytes(10, 1), 0, false);
  sender.put(Buffer.of(2), bytes(10, 2), 2, false);
  expect(taken(receiver, 0)!.header[0]).toBe(1);
  expect(receiver.take(0)).toBeUndefined();
  expect(receiver.take(1)).toBeUndefined();
  expect(taken(receiver, 2)!.header[0]).toBe(2);
});

test('what is too large is not for it', () => {
  expect(SharedQueue.takes(bytes(512, 1), bytes(LARGEST_BODY, 1))).toBe(true);
  expect(SharedQueue.takes(bytes(513, 1), bytes(0, 1))).toBe(false);
  expect(SharedQueue.takes(bytes(0, 1), bytes(LARGEST_BODY + 1, 1))).toBe(false);
});

test('an end that sleeps is to be woken once', () => {
  const { sender, receiver } = bothEnds();
  expect(sender.claimWake('receiver')).toBe(false);
  receiver.sleep('receiver');
  expect([sender.claimWake('receiver'), sender.claimWake('receiver')]).toEqual([true, false]);
  sender.sleep('sender');
  expect([sender.claimWake('receiver'), receiver.claimWake('sender'), receiver.claimWake('sender')]).toEqual([
    false,
    true,
    false,
  ]);
});

test('closed, it touches nothing', () => {
  const { sender, receiver, memory } = bothEnds();
  sender.put(Buffer.of(1), bytes(10, 1), 0, false);
  const { free } = receiver.take(0)!;
  sender.sleep('sender');
  const before = Buffer.from(memory.slice(0));
  for (const end of [sender, receiver]) end.close();
  expect(sender.put(Buffer.of(2), bytes(10, 2), 0, false)).toBe(false);
  expect(receiver.take(0)).toBeUndefined();
  expect(receiver.claimWake('sender')).toBe(false);
  receiver.sleep('receiver');
  free();
  expect(before.equals(Buffer.from(memory))).toBe(true);
});

test('whatever the memory holds, a frame lies within it, or it is an error', () => {
  const memory = new ArrayBuffer(QUEUE_BYTES);
  const draw = random(7);
  const words = new Uint32Array(memory);
  const outcomes = new Set<string>();
  const clean = words.slice();
  for (let round = 0; round < 3_000; round++) {
    words.set(clean);
    const sender = new SharedQueue(memory, 0);
    const receiver = new SharedQueue(memory, 0);
    for (let i = 0; i < 3; i++) sender.put(bytes(48, i), bytes(Math.floor(draw() * 300), i), 0, true);
    for (let i = 0; i < 2; i++) {
      const at = draw() < 0.3 ? 0 : 64 + Math.floor(draw() * 40); // how far the sender is, or amid the entries
      words[at] = draw() < 0.5 ? 2 ** 32 * draw() : draw() < 0.2 ? 2 ** 32 - 1 : Math.floor(draw() * 40) * 32;
    }
    try {
      for (let next; (next = receiver.take(0)) !== undefined;) {
        const { body } = next.frame;
        expect(body.byteOffset + body.length).toBeLessThanOrEqual(QUEUE_BYTES);
        next.free();
        outcomes.add('frame');
      }
      outcomes.add('none');
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_PROTOCOL' });
      outcomes.add((error as Error).message);
    }
  }
  expect(outcomes).toEqual(
    new Set([
      'frame',
      'none',
      'A frame lies nowhere.',
      'A frame is longer than its place.',
      'A frame passes over what is no end.',
    ]),
  );
});

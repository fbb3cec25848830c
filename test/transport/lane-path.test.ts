import { GradringError } from '../../src/errors';
import { piecesOf } from '../../src/transport/data/frame-assembly';
import { LanePath } from '../../src/transport/data/lane-path';
import type { LinkPath } from '../../src/transport/control/link-path';
import type { RingPlace, Side } from '../../src/transport/ring-place';
import type { RingState } from '../../src/transport/ring-state';
import type { DataFrame } from '../../src/transport/transport';
import type { DataHeader } from '../../src/wire/frame';
import { attach, dataFrame, landingOf, ScriptedLane, turns } from '../support/lanes';
import { FRAME } from '../support/transports';

const FAILURE = new GradringError('ERR_TIMEOUT', 'Too late.');

/** As this ring's headers are: the number of the collective. */
const encode = (sequence: number) => Buffer.from(String(sequence));
const header = (sequence: number) => ({ ...FRAME, sequence, origin: 1 });
const frame = (sequence: number, body = Buffer.alloc(0)) => piecesOf(encode(sequence), body);

/** A path over two lanes, what its ring was told, and the frames that have come by the links. */
function pathOf() {
  const lanes = { left: ScriptedLane.bothEnds()[0], right: ScriptedLane.bothEnds()[0] };
  const others = { left: lanes.left.other, right: lanes.right.other };
  for (const end of Object.values(others)) attach(end);
  const told: string[] = [];
  const came: Record<Side, DataFrame[]> = { left: [], right: [] };
  const ring: Partial<RingState> = {
    place: { hasCore: false } as RingPlace,
    failing: undefined,
    encode: message => encode((message as DataHeader).sequence),
    admit: async (side, bytes) => void told.push(`sends ${bytes} to the ${side}`),
    acceptFromLane: (side, assembled) => {
      told.push(`came from the ${side}`);
      const sequence = Number(String(assembled.headerBytes));
      if (Number.isNaN(sequence)) throw new GradringError('ERR_PROTOCOL', 'A frame has no number.');
      return { ...dataFrame(assembled), header: header(sequence) };
    },
    requireNeighbour: side => void told.push(`needs the ${side}`),
    failBroken: (side, { message }) => void told.push(`broken ${side}: ${message}`),
    lose: side => void told.push(`lost ${side}`),
  };
  const links: Partial<LinkPath> = {
    takeUpTo: (side, sequence) => {
      if (came[side].length === 0 || came[side][0]!.header.sequence > sequence) return undefined;
      return Promise.resolve(came[side].shift()!);
    },
  };
  const path = new LanePath(lanes, ring as RingState, links as LinkPath);
  /** A frame comes by a link. */
  const comes = (side: Side, sequence: number) => {
    const stray = {
      ...dataFrame({ headerBytes: encode(sequence), body: Buffer.from('stray'), bytes: 5, hasLanded: false }),
    };
    const come = { ...stray, header: header(sequence) };
    if (!path.takeStray(side, come)) came[side].push(come);
  };
  return { path, lanes, others, told, comes };
}

test('frames go and come on the side that is told, and are counted', async () => {
  const { path, others, told } = pathOf();
  expect(path.media).toEqual(['shared-memory', 'shared-memory']);
  await path.send('left', header(1), Buffer.from('one'));
  await path.send('right', header(2), Buffer.from('two'));
  expect(String((await others.left.receive()).body)).toBe('one');
  expect(String((await others.right.receive()).body)).toBe('two');
  expect(told.splice(0)).toEqual(['sends 4 to the left', 'sends 4 to the right']);
  await others.left.send(encode(3), Buffer.from('three'));
  const received = await path.receive('left', 3);
  expect([received.header.sequence, String(received.body)]).toEqual([3, 'three']);
  await path.forward('right', received);
  const forwarded = await others.right.receive();
  expect([String(forwarded.headerBytes), String(forwarded.body)]).toEqual(['3', 'three']);
  expect(told).toEqual(['came from the left', 'sends 6 to the right']);
});

test('a neighbour is needed if what is waited for is not there', async () => {
  const { path, lanes, told } = pathOf();
  lanes.left.put(...frame(1));
  await path.receive('left', 1);
  expect(told.splice(0)).toEqual(['came from the left']);
  const received = path.receive('left', 2);
  await turns(1);
  expect([told.includes('needs the left'), path.isAwaited('left'), path.isAwaited('right')]).toEqual([
    true,
    true,
    false,
  ]);
  lanes.left.put(...frame(2));
  lanes.left.wake();
  await received;
  expect(path.isAwaited('left')).toBe(false);
  lanes.right.other.capacity = 0;
  const sent = path.send('right', header(3), Buffer.alloc(1));
  await turns(1);
  expect([told.includes('needs the right'), path.isAwaited('right')]).toEqual([true, true]);
  lanes.right.other.capacity = Infinity;
  lanes.right.wake();
  await sent;
});

test('nothing lands when the path has failed, not even the rest of a body', async () => {
  const { path, lanes } = pathOf();
  const [head, body] = frame(1, Buffer.alloc(50_000, 1));
  const [landing, another] = [landingOf(50_000, 1_000), landingOf(50_000, 1_000)];
  lanes.left.put(head!, body!.subarray(0, 20_000));
  const received = path.receive('left', 1, landing);
  const alsoReceived = path.receive('right', 1, another);
  await turns(1);
  expect(landing.landed).toBe(20_000);
  path.fail(FAILURE);
  await expect(received).rejects.toBe(FAILURE);
  await expect(alsoReceived).rejects.toBe(FAILURE);
  landing.body.fill(7); // it is the caller's again
  for (const lane of Object.values(lanes)) {
    lane.put(...(lane === lanes.left ? [body!.subarray(20_000)] : [head!, body!]), ...frame(2));
    lane.tryBeforeWaiting('event loop');
    const { tries } = lane;
    lane.tryBeforeWaiting('event loop');
    expect(lane.tries).toBe(tries + 1); // all was read: nothing is left
  }
  expect([landing.landed, another.landed, landing.body.every(byte => byte === 7)]).toEqual([20_000, 0, true]);
});

test('what waits for room fails with the path, and none of the rest is sent', async () => {
  const { path, lanes, others } = pathOf();
  others.right.capacity = 20_000;
  const sent = path.send('right', header(1), Buffer.alloc(50_000));
  const next = path.send('right', header(2), Buffer.alloc(10));
  for (const promise of [sent, next]) promise.catch(() => undefined);
  await turns(1);
  expect([others.right.unread, path.isAwaited('right')]).toEqual([20_000, true]);
  path.fail(FAILURE);
  for (const promise of [sent, next]) await expect(promise).rejects.toBe(FAILURE);
  others.right.capacity = Infinity;
  lanes.right.wake();
  lanes.right.tryBeforeWaiting('event loop');
  expect([others.right.unread, path.isAwaited('right')]).toEqual([20_000, false]);
});

test('every later call fails as the path has', async () => {
  const { path, lanes } = pathOf();
  path.fail(FAILURE);
  lanes.left.put(...frame(1));
  await expect(path.receive('left', 1)).rejects.toBe(FAILURE);
  await expect(path.send('left', header(1), Buffer.alloc(1))).rejects.toBe(FAILURE);
  await expect(path.forward('left', strayFrame())).rejects.toBe(FAILURE);
});

const strayFrame = () => dataFrame({ headerBytes: encode(1), body: Buffer.alloc(1), bytes: 1, hasLanded: false });

test.each([4, 5])(
  'a collective 5 that waits is shown a frame of collective %i that comes by the link',
  async sequence => {
    const { path, lanes, comes } = pathOf();
    const [head, body] = frame(5, Buffer.alloc(50_000, 1));
    const landing = landingOf(50_000, 1_000);
    lanes.left.put(head!, body!.subarray(0, 20_000));
    const received = path.receive('left', 5, landing);
    await turns(1);
    comes('left', 6); // its neighbour is ahead
    comes('right', sequence); // nobody waits there
    expect(path.isAwaited('left')).toBe(true);
    comes('left', sequence);
    const { header: shown, body: bytes } = await received;
    expect([shown.sequence, String(bytes), path.isAwaited('left')]).toEqual([sequence, 'stray', false]);
    expect(landing.landed).toBe(20_000);
    lanes.left.put(body!.subarray(20_000));
    lanes.left.tryBeforeWaiting('event loop');
    expect(landing.landed).toBe(20_000); // nothing lands any more
    expect(String((await path.receive('right', 5)).body)).toBe('stray');
    expect((await path.receive('left', 6)).header.sequence).toBe(6);
  },
);

test('a frame by the link is not missed if it comes while the event loop turns before a receive', async () => {
  const { path, lanes, comes } = pathOf();
  for (let sequence = 0; sequence < 300; sequence++) {
    lanes.left.put(...frame(sequence));
    let isReceived = false;
    const received = path.receive('left', sequence).then(shown => ((isReceived = true), shown));
    await Promise.resolve();
    for (let i = 0; i < 10; i++) await Promise.resolve();
    if (!isReceived) {
      comes('left', sequence); // in the turn
      const { body } = await received;
      expect(String(body)).toBe('stray');
      return;
    }
  }
  throw new Error('The event loop never turned.');
});

test('what is no frame, and what is lost, is told with its side', async () => {
  const { path, lanes, told } = pathOf();
  lanes.left.put(...piecesOf(Buffer.from('no number'), Buffer.alloc(0)));
  path.receive('left', 1).catch(() => undefined);
  lanes.right.put(Buffer.alloc(96, 0xff));
  path.receive('right', 1).catch(() => undefined);
  await turns(1);
  lanes.right.breakDown();
  lanes.right.breakDown();
  expect(told.filter(words => words.startsWith('broken') || words.startsWith('lost'))).toEqual([
    'broken left: A frame has no number.',
    'broken right: A frame has a header that is longer than its head.',
    'lost right',
  ]);
  path.fail(FAILURE);
});

test('what went wrong with a lane before it became part of a path is told', () => {
  const lanes = { left: ScriptedLane.bothEnds()[0], right: ScriptedLane.bothEnds()[0] };
  lanes.left.put(Buffer.alloc(96, 0xff));
  lanes.left.tryBeforeWaiting('event loop'); // reads ahead
  lanes.right.breakDown();
  expect(attach(lanes.left).broken).toHaveLength(1);
  expect(attach(lanes.right).lost).toBe(1);
});

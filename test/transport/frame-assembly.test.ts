import { FrameAssembly, headOf, piecesOf } from '../../src/transport/data/frame-assembly';
import { landingOf } from '../support/lanes';
import { random } from '../support/random';

const HEADER = Buffer.from('header');
const LARGE = 256 * 1024;

test('frames are whole however the stream is cut', () => {
  const bodies = Array.from({ length: 200 }, (_, i) => {
    const next = random(i);
    const length = [0, 1, 95, 96, 97, 5000, LARGE, LARGE + 1][Math.floor(next() * 8)]!;
    return Buffer.alloc(length, Buffer.from([i, i >> 8, 1]));
  });
  const bytes = Buffer.concat(bodies.flatMap(body => piecesOf(HEADER, body)));
  const assembly = new FrameAssembly();
  const next = random(1);
  let [at, taken] = [0, 0];
  while (at < bytes.length) {
    const place = assembly.place();
    const come = Math.min(1 + Math.floor(next() * (next() < 0.5 ? 100 : 400_000)), place.length, bytes.length - at);
    place.set(bytes.subarray(at, at + come));
    at += come;
    if (!assembly.advance(come)) continue;
    for (let one = assembly.take(); one !== undefined; one = assembly.take()) {
      expect(Buffer.compare(one.headerBytes, HEADER)).toBe(0);
      expect(one.body.equals(bodies[taken]!)).toBe(true);
      taken += 1;
    }
  }
  expect([taken, assembly.isFull]).toEqual([200, false]);
});

test('no more is read when many empty frames wait', () => {
  const assembly = new FrameAssembly();
  const head = headOf(HEADER, 0);
  let frames = 0;
  for (; !assembly.isFull && frames < 10_000; frames++) assembly.feed(head);
  expect(frames).toBeLessThan(5_000);
  for (let taken = 0; taken < frames; taken++) expect(assembly.take()).toBeDefined();
  expect(assembly.isFull).toBe(false);
});

test('what collectives send ahead is read, however large', () => {
  const assembly = new FrameAssembly();
  for (let frame = 0; frame < 4; frame++) {
    expect(assembly.isFull).toBe(false);
    for (const piece of piecesOf(HEADER, Buffer.alloc(3_000_000))) assembly.feed(piece);
  }
  expect(assembly.isFull).toBe(true);
});

test('a body lands if it is the next, as long, and has not begun to come', () => {
  const bytes = Buffer.from('body');
  const landed: string[] = [];
  const place = Buffer.alloc(4);
  const landing = {
    bytes: 4,
    place: (at: number) => place.subarray(at, at + 3),
    advance: (at: number, count: number) => landed.push(String(place.subarray(at, at + count))),
  };
  const frame = (body: Buffer) => Buffer.concat([headOf(HEADER, body.length), body]);
  const take = (fed: Buffer, at = fed.length) => {
    const assembly = new FrameAssembly();
    assembly.feed(fed.subarray(0, at));
    const before = assembly.take(landing);
    assembly.feed(fed.subarray(at));
    return (before ?? assembly.take())?.hasLanded;
  };
  expect(take(frame(bytes), 50)).toBe(true);
  expect(landed.splice(0)).toEqual(['bod', 'y']);
  expect(take(frame(bytes), 97)).toBe(false); // its head had come
  expect(take(frame(bytes))).toBe(false); // all of it had
  expect(take(frame(Buffer.from('longer')), 50)).toBe(false);
  expect(landed).toEqual([]);
});

test('only the frame that was waited for lands, not the next', () => {
  const assembly = new FrameAssembly();
  const landing = landingOf(5_000, 5_000);
  assembly.take(landing);
  for (const fill of [1, 2]) for (const piece of piecesOf(HEADER, Buffer.alloc(5_000, fill))) assembly.feed(piece);
  expect([assembly.take(), assembly.take()].map(frame => frame!.hasLanded)).toEqual([true, false]);
  expect([landing.landed, landing.body.includes(2)]).toEqual([5_000, false]);
});

test.each(['before its head has come', 'when some of it has landed'])(
  'a body does not land that is called off %s',
  when => {
    const assembly = new FrameAssembly();
    const landing = landingOf(50_000, 1_000);
    assembly.take(landing);
    if (when.startsWith('before')) assembly.forgetLanding();
    assembly.feed(headOf(HEADER, 50_000));
    assembly.feed(Buffer.alloc(20_000, 1));
    if (!when.startsWith('before')) assembly.forgetLanding();
    assembly.feed(Buffer.alloc(30_000, 2));
    expect(landing.landed).toBe(when.startsWith('before') ? 0 : 20_000);
    expect(landing.body.includes(2)).toBe(false);
    expect(assembly.take()).toMatchObject({ bytes: 50_000, hasLanded: false });
  },
);

test('a header that reaches past its head is an error', () => {
  const assembly = new FrameAssembly();
  const head = headOf(HEADER, 0);
  head[4] = 92;
  assembly.place().set(head);
  expect(() => assembly.advance(head.length)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});

test('a header that is too long for a head is refused', () => {
  expect(headOf(Buffer.alloc(91), 0)).toHaveLength(96);
  expect(() => headOf(Buffer.alloc(92), 0)).toThrow(RangeError);
});

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ReceivedFrame } from '../../src/transport/received-frame';
import { placeOf, SLOT_BYTES, Slots } from '../../src/transport/slots';
import { type DataHeader, FrameKind, Operation } from '../../src/wire/frame';

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-slots-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** Both ends of a link. */
function bothEnds(): { file: string; sender: Slots; receiver: Slots } {
  const file = path.join(folder, `slots-${files++}`);
  const receiver = Slots.create(file)!;
  return { file, receiver, sender: Slots.open(file)! };
}

const body = (length: number, seed: number) => Buffer.from(Array.from({ length }, (_, i) => (i * 7 + seed) % 251));

const HEADER: DataHeader = {
  ...({ kind: FrameKind.Data, operation: Operation.AllReduce, elementType: 'none', reduction: 'none' } as const),
  ...{ elementCount: 0, parameter: 0, part: 0, checksum: 0, sequence: 0, origin: 0 },
};

test('what is filled in at one end comes out at the other, whole or by parts, and in any order', () => {
  const { sender, receiver } = bothEnds();
  const bodies = [body(100, 1), body(0, 2), body(SLOT_BYTES, 3), body(5_000, 4)];
  const places = bodies.map(each => placeOf(Buffer.from(sender.fill(each)!)));
  expect(places.map(({ bytes }) => bytes)).toEqual(bodies.map(({ length }) => length));
  for (const i of [3, 0, 2, 1]) {
    const target = Buffer.alloc(bodies[i]!.length);
    receiver.read(places[i]!, target, 0);
    expect(target.equals(bodies[i]!)).toBe(true);
    receiver.empty(places[i]!);
  }
  const place = placeOf(Buffer.from(sender.fill(bodies[3]!)!));
  const part = Buffer.alloc(1_000);
  receiver.read(place, part, 2_500);
  expect(part.equals(bodies[3]!.subarray(2_500, 3_500))).toBe(true);
});

test('when all slots are taken nothing is filled in, and the lowest that is emptied is next', () => {
  const { sender, receiver } = bothEnds();
  const places = [];
  for (let place; (place = sender.fill(body(10, places.length))) !== undefined;)
    places.push(placeOf(Buffer.from(place)));
  expect(places.map(({ slot }) => slot)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  receiver.empty(places[5]!);
  receiver.empty(places[2]!);
  expect(placeOf(Buffer.from(sender.fill(body(10, 99))!)).slot).toBe(2);
  const kept = Buffer.alloc(10);
  receiver.read(places[3]!, kept, 0);
  expect(kept.equals(body(10, 3))).toBe(true);
});

test('of a process that is killed before the other end has opened the file nothing of it is left', () => {
  const file = path.join(folder, `slots-${files++}`);
  const slots = JSON.stringify(path.join(__dirname, '../../dist/transport/slots.js'));
  const source = `
    const made = require(${slots}).Slots.create(${JSON.stringify(file)});
    console.log(made !== undefined && require('node:fs').statSync(${JSON.stringify(file)}).size > 0);
    process.kill(process.pid, 'SIGKILL');`;
  expect(spawnSync(process.execPath, ['-e', source], { encoding: 'utf8' }).stdout).toBe('true\n');
  expect(existsSync(file)).toBe(false); // what is there leads nowhere
  expect(Slots.open(file)).toBeUndefined();
});

test('a body larger than a slot is not for it', () => {
  expect(bothEnds().sender.fill(Buffer.alloc(SLOT_BYTES + 1))).toBeUndefined();
});

test('the file has all its memory from the start, and is for its owner only', () => {
  const { size, blocks, mode } = statSync(bothEnds().file);
  expect(size).toBeGreaterThan(8 * SLOT_BYTES);
  expect(blocks * 512).toBeGreaterThanOrEqual(8 * SLOT_BYTES);
  expect(mode & 0o777).toBe(0o600);
});

test('where there is no file, or none can be made, there are no slots', () => {
  const file = path.join(folder, 'missing', 'slots');
  expect(Slots.create(file)).toBeUndefined();
  expect(Slots.open(file)).toBeUndefined();
  expect(Slots.create(undefined)).toBeUndefined();
  expect(existsSync(file)).toBe(false);
  expect(Slots.create(bothEnds().file)).toBeUndefined(); // another's is never taken over
});

test.each([
  ['too short', Buffer.alloc(7)],
  ['too long', Buffer.alloc(9)],
  ['a slot that is none', Buffer.of(8, 0, 0, 0, 1, 0, 0, 0)],
  ['more than a slot holds', Buffer.of(0, 0, 0, 0, 1, 0, 8, 0)],
])('a place that is %s is an error', (_, bytes) => {
  expect(() => placeOf(bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});

test('a frame with its body in a slot gives it from there, and frees it', () => {
  const { sender, receiver } = bothEnds();
  const place = Buffer.from(sender.fill(body(1_000, 5))!);
  const frame = new ReceivedFrame({ ...HEADER, inSlot: true }, [Buffer.alloc(64), place], receiver);
  expect(frame.bodyBytes).toBe(1_000);
  const target = Buffer.alloc(400);
  frame.copyTo(target, 600);
  expect(target.equals(body(1_000, 5).subarray(600))).toBe(true);
  frame.release();
  expect(placeOf(Buffer.from(sender.fill(body(1, 6))!)).slot).toBe(placeOf(place).slot);
});

test('a frame that names a slot where the link has none is an error, as is a file cut short', () => {
  const { file, sender, receiver } = bothEnds();
  const message = [Buffer.alloc(64), Buffer.from(sender.fill(body(1_000, 5))!)];
  const error = expect.objectContaining({ code: 'ERR_PROTOCOL' });
  expect(() => new ReceivedFrame({ ...HEADER, inSlot: true }, message, undefined)).toThrow(error);
  const frame = new ReceivedFrame({ ...HEADER, inSlot: true }, message, receiver);
  truncateSync(file, 500);
  expect(() => frame.copyTo(Buffer.alloc(1_000))).toThrow(error);
});

test('a file that was cut short while it was made is not taken for one', () => {
  const { file, sender } = bothEnds();
  truncateSync(file, 3 * SLOT_BYTES);
  expect(Slots.open(file)).toBeUndefined();
  expect(sender.fill(body(10, 1))).toBeUndefined(); // nor used any more
});

test('closed slots are not filled', () => {
  const { sender } = bothEnds();
  sender.close();
  expect(sender.fill(body(10, 1))).toBeUndefined();
});

const tmpfs = spawnSync('unshare', ['-Urmn', 'true']).status === 0;

(tmpfs ? test : test.skip)('where the memory is full, all goes by the socket', () => {
  const source = `
    const { Communicator } = require(${JSON.stringify(path.join(__dirname, '../../dist/communicator/communicator.js'))});
    (async () => {
      const ring = await Communicator.connect();
      const sum = await ring.allReduce(new Float32Array(1_000_000).fill(ring.rank + 1));
      console.log(ring.rank, sum[0], sum.at(-1), require('node:fs').readdirSync(process.env.GRADRING_SOCKET_FOLDER).length);
      await ring.close();
    })();`;
  const script = path.join(folder, 'full.js');
  writeFileSync(script, source);
  const launch = path.join(__dirname, '../../scripts/launch');
  const run = `mount -t tmpfs -o size=1m none /dev/shm && ip link set lo up && ${launch} -n 2 --no-prefix ${script}`;
  const { stdout, stderr } = spawnSync('unshare', ['-Urmn', 'sh', '-c', run], { encoding: 'utf8' });
  expect([stdout.trim().split('\n').sort(), stderr]).toEqual([['0 3 3 0', '1 3 3 0'], '']);
});

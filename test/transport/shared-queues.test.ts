import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { QUEUE_BYTES } from '../../src/transport/data/shared-queue';
import { SharedQueues } from '../../src/transport/data/shared-queues';
import { poll } from '../../src/transport/data/system-calls';
import { until } from '../support/rings';

const ROOT = path.join(__dirname, '../..');
const folder = mkdtempSync(path.join(tmpdir(), 'gradring-queues-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** Resolves when the descriptor of its bell is closed. */
const bellClosed = (end: SharedQueues) => once((end as unknown as { bell: { socket: Socket } }).bell.socket, 'close');

const fresh = () => path.join(folder, `queues-${files++}`);
const made: SharedQueues[] = [];
afterEach(() => made.splice(0).forEach(each => each.close()));

/** Both ends of a link. */
function bothEnds(): { file: string; maker: SharedQueues; opener: SharedQueues } {
  const file = fresh();
  const ends = { maker: SharedQueues.create(file)!, opener: SharedQueues.open(file)! };
  made.push(...Object.values(ends));
  return { file, ...ends };
}

/** Whether its bell has been rung since it was last read. True also if the other end of its pipe is closed. */
const isRung = (end: SharedQueues) => poll(end.asked(), 0) > 0;

const openDescriptors = () => readdirSync('/proc/self/fd').length;

test('what one end puts in the other takes, either way', () => {
  const { maker, opener } = bothEnds();
  for (const [from, to] of [
    [maker, opener],
    [opener, maker],
  ] as const) {
    expect(from.put(Buffer.from('header'), Buffer.from('body'), 0)).toBe(true);
    expect(from.take(0)).toBeUndefined();
    expect(to.take(0)!.body.toString()).toBe('body');
  }
});

test('who sleeps is woken, and nobody else', async () => {
  const { maker, opener } = bothEnds();
  const woken: string[] = [];
  maker.onWake = () => woken.push('maker');
  opener.onWake = () => woken.push('opener');
  const put = (end: SharedQueues) => end.put(Buffer.from('header'), Buffer.alloc(256 * 1024), 0);
  opener.sleep(false);
  put(maker);
  put(maker);
  put(opener);
  expect([isRung(maker), isRung(opener)]).toEqual([false, true]);
  await until(() => woken.length > 0);
  opener.take(0);
  while (put(maker));
  expect([isRung(maker), isRung(opener)]).toEqual([false, false]);
  maker.sleep(true);
  for (let i = 0; i < 3; i++) opener.take(0);
  expect([isRung(maker), isRung(opener)]).toEqual([true, false]);
  await until(() => woken.length > 1);
  expect(woken).toEqual(['opener', 'maker']);
});

test('no more is read when a frame is there that is not its turn', () => {
  const { maker, opener } = bothEnds();
  let puts = 0;
  for (let tries = 0; tries < 200; tries++) {
    if (maker.put(Buffer.from('header'), Buffer.alloc(256 * 1024), 1)) puts += 1;
    expect(opener.take(0)).toBeUndefined();
  }
  expect(puts).toBeLessThan(12);
});

test('nobody waits to wake who does not hear', () => {
  const { maker, opener } = bothEnds();
  for (let i = 0; i < 100_000; i++) {
    opener.sleep(false);
    expect(maker.put(Buffer.from('header'), Buffer.alloc(0), 0)).toBe(true); // more rings than a pipe holds
    opener.take(0);
  }
});

test('a bell outlives the other end, which may have died', async () => {
  const { maker, opener } = bothEnds();
  const closed = [maker, opener].map(bellClosed);
  maker.close();
  await closed[0];
  expect(isRung(opener)).toBe(false); // and its pipe has not ended
  const before = openDescriptors();
  opener.close();
  await closed[1];
  expect(before - openDescriptors()).toBe(3); // the file, the way to the other bell, its own
});

test('nothing is sent to who has not opened the file', () => {
  const file = fresh();
  const maker = SharedQueues.create(file)!;
  made.push(maker);
  expect([maker.canSend, maker.canReceive]).toEqual([false, false]);
  const opener = SharedQueues.open(file)!;
  made.push(opener);
  expect([maker.canSend, opener.canSend]).toEqual([true, true]);
});

test('closed, all descriptors are closed, and nothing rings', async () => {
  const before = openDescriptors();
  const { maker, opener } = bothEnds();
  expect(openDescriptors()).toBeGreaterThan(before);
  const closed = [maker, opener].map(bellClosed);
  for (const end of [maker, opener, maker]) end.close();
  await Promise.all(closed);
  expect(openDescriptors()).toBe(before);
  expect(maker.canSend).toBe(false);
  expect(maker.put(Buffer.from('header'), Buffer.alloc(0), 0)).toBe(false);
});

test('of a process that is killed before the other end has opened the file nothing of it is left', () => {
  const file = fresh();
  const source = `
    const { SharedQueues } = require(${JSON.stringify(path.join(ROOT, 'dist/transport/data/shared-queues.js'))});
    const made = SharedQueues.create(${JSON.stringify(file)});
    console.log(made !== undefined && require('node:fs').statSync(${JSON.stringify(file)}).size > 0);
    process.kill(process.pid, 'SIGKILL');`;
  expect(spawnSync(process.execPath, ['-e', source], { encoding: 'utf8' }).stdout).toBe('true\n');
  expect(existsSync(file)).toBe(false); // what is there leads nowhere
  expect(SharedQueues.open(file)).toBeUndefined();
});

test('the file has all its memory from the start, and is for its owner only', () => {
  const { size, blocks, mode } = statSync(bothEnds().file);
  expect(size).toBeGreaterThan(2 * QUEUE_BYTES);
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(mode & 0o777).toBe(0o600);
});

test('where there is no file, or none can be made, there are no queues, and nothing stays open', () => {
  const { file } = bothEnds();
  const before = openDescriptors();
  const missing = path.join(folder, 'missing', 'queues');
  expect(SharedQueues.create(missing)).toBeUndefined();
  expect(SharedQueues.open(missing)).toBeUndefined();
  expect(SharedQueues.create(undefined)).toBeUndefined();
  expect(existsSync(missing)).toBe(false);
  expect(SharedQueues.create(file)).toBeUndefined(); // another's is never taken over
  writeFileSync(path.join(folder, 'text'), 'no queues');
  expect(SharedQueues.open(path.join(folder, 'text'))).toBeUndefined();
  expect(openDescriptors()).toBe(before);
});

test('a file that was cut short is not taken for one', () => {
  const file = fresh();
  made.push(SharedQueues.create(file)!);
  truncateSync(file, QUEUE_BYTES);
  expect(SharedQueues.open(file)).toBeUndefined();
});

/** Runs two ranks that add a large array, in a process that `prepare` has changed. Returns what they tell. */
function addOnTwoRanks(prepare: string, shell: readonly string[] = [], before = ''): [string[], string] {
  const script = path.join(folder, `add-${files++}.js`);
  writeFileSync(
    script,
    `${prepare}
    const { readdirSync, readFileSync } = require('node:fs');
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    (async () => {
      const ring = await Communicator.connect();
      const sum = await ring.allReduce(new Float32Array(1_000_000).fill(ring.rank + 1));
      const isMapped = /\\/dev\\/shm\\/.*\\/queues/.test(readFileSync('/proc/self/maps', 'utf8'));
      console.log(ring.rank, sum[0], sum.at(-1), isMapped, readdirSync(process.env.GRADRING_SOCKET_FOLDER).length);
      await ring.close();
    })();`,
  );
  const run = `${before} ${path.join(ROOT, 'scripts/launch')} -n 2 --no-prefix ${script}`;
  const [command, ...args] = [...shell, 'sh', '-c', run];
  const { stdout, stderr } = spawnSync(command!, args, { encoding: 'utf8' });
  return [stdout.trim().split('\n').sort(), stderr];
}

test('ranks of one host have the memory mapped', () => {
  expect(addOnTwoRanks('')).toEqual([['0 3 3 true 0', '1 3 3 true 0'], '']);
});

test('without koffi, all goes by the socket', () => {
  const preload = path.join(__dirname, '../support/no-koffi.js');
  // On one rank alone, too: its neighbour is not to wait for it at queues that it does not have.
  for (const without of ['0', '1', '01']) {
    const [lines, errors] = addOnTwoRanks(`
      if (${JSON.stringify(without)}.includes(process.env.RANK)) {
        const threads = require('node:worker_threads');
        threads.Worker = class extends threads.Worker {
          constructor(file, options) {
            super(file, { ...options, execArgv: ['--require', ${JSON.stringify(preload)}] });
          }
        };
      }`);
    expect(errors).toBe('');
    expect(lines.map(line => line.slice(0, 5))).toEqual(['0 3 3', '1 3 3']);
    for (const rank of without) expect(lines[Number(rank)]).toContain('false');
  }
});

const tmpfs = spawnSync('unshare', ['-Urmn', 'true']).status === 0;

(tmpfs ? test : test.skip)('where the memory is full, all goes by the socket', () => {
  const mount = 'mount -t tmpfs -o size=1m none /dev/shm && ip link set lo up &&';
  expect(addOnTwoRanks('', ['unshare', '-Urmn'], mount)).toEqual([['0 3 3 false 0', '1 3 3 false 0'], '']);
});

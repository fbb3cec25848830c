import { spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { SharedMemoryLane } from '../../src/transport/data/shared-memory-lane';
import { QUEUE_BYTES } from '../../src/transport/data/shared-queue';
import { poll, type Polled } from '../../src/transport/data/system-calls';
import { attach, dataFrame, openDescriptors, turns } from '../support/lanes';
import { until } from '../support/rings';
import { needs, testWhere } from '../support/test-where';

const ROOT = path.join(__dirname, '../..');
const folder = mkdtempSync(path.join(tmpdir(), 'gradring-lanes-'));
afterAll(() => rmSync(folder, { recursive: true }));
afterAll(closeAllSockets);
let files = 0;

const HEADER = Buffer.from('header');
const LARGE = Buffer.alloc(256 * 1024);

const fresh = () => path.join(folder, `lane-${files++}`);
const made: SharedMemoryLane[] = [];
afterEach(() => made.splice(0).forEach(each => each.close()));

/** Both ends of a lane, which nothing moves by itself, and how often they were woken. */
function bothEnds() {
  const file = fresh();
  const maker = SharedMemoryLane.create(file)!;
  const opener = SharedMemoryLane.open(file)!;
  made.push(maker, opener);
  return { file, maker, opener };
}

/** Counts how often a lane is woken. */
function wakesOf(lane: SharedMemoryLane): { count: number } {
  const wakes = { count: 0 };
  const onWait = () => (wakes.count += 1);
  const fail = (error?: Error) => {
    throw error ?? new Error('It is lost.');
  };
  lane.attach({ accept: dataFrame, onWait, onBroken: fail, onLost: fail });
  return wakes;
}

/** Whether it has been woken since it last looked. True also if the other end of its pipe is closed. */
const isWoken = (end: SharedMemoryLane) => poll(end.polled(), 0) > 0;

test('what one end sends the other receives, either way', async () => {
  const { maker, opener } = bothEnds();
  for (const end of [maker, opener]) attach(end);
  for (const [from, to] of [
    [maker, opener],
    [opener, maker],
  ] as const) {
    await from.send(HEADER, Buffer.from('body'));
    const frame = await to.receive();
    expect([String(frame.headerBytes), String(frame.body)]).toEqual(['header', 'body']);
  }
  expect([maker.medium, maker.isDirect, maker.offer]).toEqual(['shared-memory', true, undefined]);
});

test('an end that is about to wait is woken, and nobody else', async () => {
  const { maker, opener } = bothEnds();
  const wakes = { maker: wakesOf(maker), opener: wakesOf(opener) };
  opener.prepareToWait();
  await maker.send(HEADER, LARGE);
  expect([isWoken(maker), isWoken(opener)]).toEqual([false, true]);
  await until(() => wakes.opener.count > 0);
  await maker.send(HEADER, LARGE);
  await opener.send(HEADER, LARGE);
  expect([isWoken(maker), isWoken(opener)]).toEqual([false, false]);
  for (let frame = 0; frame < 2; frame++) await opener.receive();
  let sent = Promise.resolve();
  while (!maker.waitsForRoom) sent = maker.send(HEADER, LARGE);
  expect([isWoken(maker), isWoken(opener), wakes.maker.count]).toEqual([false, false, 1]); // that it waits
  maker.prepareToWait();
  await opener.receive();
  await opener.receive();
  await opener.receive();
  expect([isWoken(maker), isWoken(opener)]).toEqual([true, false]);
  await sent; // it was woken
  expect(wakes).toEqual({ maker: { count: 2 }, opener: { count: 1 } });
});

test('no more is read ahead than may be held', async () => {
  const { maker, opener } = bothEnds();
  for (const end of [maker, opener]) wakesOf(end);
  let frames = 0;
  for (let tries = 0; tries < 200; tries++) {
    if (!maker.waitsForRoom) maker.send(HEADER, Buffer.alloc(LARGE.length, frames++)).catch(() => undefined);
    opener.tryBeforeWaiting('poll');
    maker.move();
    await turns(1);
  }
  expect(frames).toBeGreaterThan(12);
  expect(frames).toBeLessThan(24); // 2 MB are held, and 2 MB are in the memory
  for (let frame = 0; frame < frames; frame++) {
    const received = opener.receive();
    await turns(1);
    while (maker.move() || opener.move());
    expect((await received).body[0]).toBe(frame);
  }
});

test('nobody waits to wake an end that does not hear', async () => {
  const { maker, opener } = bothEnds();
  for (const end of [maker, opener]) wakesOf(end);
  opener.prepareToWait();
  const [{ file }] = opener.polled() as [Polled];
  const wakes = openSync(`/proc/self/fd/${file}`, constants.O_WRONLY | constants.O_NONBLOCK);
  try {
    expect(() => {
      for (;;) writeSync(wakes, LARGE);
    }).toThrow('EAGAIN'); // the pipe is full of wakes
  } finally {
    closeSync(wakes);
  }
  await maker.send(HEADER, Buffer.from('body'));
  expect(String((await opener.receive()).body)).toBe('body');
});

test('an end outlives the other, which may have died', async () => {
  const { maker, opener } = bothEnds();
  const both = openDescriptors();
  maker.close();
  await until(() => openDescriptors() < both - 3);
  await turns(10);
  expect(isWoken(opener)).toBe(false); // and its pipe has not ended
  const before = openDescriptors();
  opener.close();
  await until(() => before - openDescriptors() === 3); // the file, the end of the other's pipe, its own
});

test('a lane is open when the other end has opened the memory', async () => {
  const file = fresh();
  const maker = SharedMemoryLane.create(file)!;
  made.push(maker);
  await expect(maker.opened()).rejects.toThrow('has not opened');
  expect(maker.polled()).toEqual([]);
  const opener = SharedMemoryLane.open(file)!;
  made.push(opener);
  await Promise.all([maker.opened(), opener.opened()]);
  opener.close();
  await expect(opener.opened()).rejects.toThrow();
});

test('closed, all descriptors are closed, and nobody is woken', async () => {
  const before = openDescriptors();
  const { maker, opener } = bothEnds();
  for (const end of [maker, opener]) attach(end);
  expect(openDescriptors()).toBeGreaterThan(before);
  opener.prepareToWait();
  for (const end of [maker, opener, maker]) end.close();
  await until(() => openDescriptors() === before);
  for (const end of [maker, opener]) {
    end.finish();
    await end.otherFinished();
    const sent = end.send(HEADER, Buffer.alloc(0));
    const received = end.receive();
    expect([end.waitsForRoom, end.waitsForFrame]).toEqual([true, true]);
    end.fail(new Error('It is closed.') as never);
    await expect(sent).rejects.toThrow('It is closed.');
    await expect(received).rejects.toThrow('It is closed.');
  }
});

test('of a process that is killed before the other end has opened the file nothing of it is left', () => {
  const file = fresh();
  const module = path.join(ROOT, 'dist/transport/data/shared-memory-lane.js');
  const source = `
    const { SharedMemoryLane } = require(${JSON.stringify(module)});
    const made = SharedMemoryLane.create(${JSON.stringify(file)});
    console.log(made !== undefined && require('node:fs').statSync(${JSON.stringify(file)}).size > 0);
    process.kill(process.pid, 'SIGKILL');`;
  expect(spawnSync(process.execPath, ['-e', source], { encoding: 'utf8' }).stdout).toBe('true\n');
  expect(existsSync(file)).toBe(false); // what is there leads nowhere
  expect(SharedMemoryLane.open(file)).toBeUndefined();
});

test('the file has all its memory from the start, and is for its owner only', () => {
  const { size, blocks, mode } = statSync(bothEnds().file);
  expect(size).toBeGreaterThan(2 * QUEUE_BYTES);
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(mode & 0o777).toBe(0o600);
});

test('where there is no file, or none can be made, there is no lane, and nothing stays open', () => {
  const { file } = bothEnds();
  const before = openDescriptors();
  const missing = path.join(folder, 'missing', 'lane');
  expect(SharedMemoryLane.create(missing)).toBeUndefined();
  expect(SharedMemoryLane.open(missing)).toBeUndefined();
  expect(existsSync(missing)).toBe(false);
  expect(SharedMemoryLane.create(file)).toBeUndefined(); // another's is never taken over
  writeFileSync(path.join(folder, 'text'), 'no lane');
  expect(SharedMemoryLane.open(path.join(folder, 'text'))).toBeUndefined();
  expect(openDescriptors()).toBe(before);
});

test('a file that was cut short is not taken for one', () => {
  const file = fresh();
  made.push(SharedMemoryLane.create(file)!);
  truncateSync(file, QUEUE_BYTES);
  expect(SharedMemoryLane.open(file)).toBeUndefined();
});

interface Ring {
  /** The ranks that have no koffi. */
  readonly without: string;
  readonly transport?: string;
}

/** Two ranks form these rings one after the other, and add a large array in each. Returns what they tell, by ring. */
function addOnTwoRanks(rings: readonly Ring[], shell: readonly string[] = [], before = ''): [string[], string] {
  const script = path.join(folder, `add-${files++}.js`);
  writeFileSync(
    script,
    `const { readdirSync, readFileSync } = require('node:fs');
    const threads = require('node:worker_threads');
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    const { Worker } = threads;
    class WithoutKoffi extends Worker {
      constructor(file, options) {
        const preload = ${JSON.stringify(path.join(__dirname, '../support/no-koffi.js'))};
        super(file, { ...options, execArgv: ['--require', preload] });
      }
    }
    (async () => {
      for (const [i, { without, ...options }] of ${JSON.stringify(rings)}.entries()) {
        threads.Worker = without.includes(process.env.RANK) ? WithoutKoffi : Worker;
        const ring = await Communicator.connect(options);
        const sum = await ring.allReduce(new Float32Array(1_000_000).fill(ring.rank + 1));
        const isMapped = /\\/dev\\/shm\\/.*\\/queues/.test(readFileSync('/proc/self/maps', 'utf8'));
        const left = readdirSync(process.env.GRADRING_SOCKET_FOLDER).length;
        console.log(i, ring.rank, sum[0], sum.at(-1), isMapped, left);
        await ring.close();
      }
    })();`,
  );
  const run = `${before} ${path.join(ROOT, 'scripts/launch')} -n 2 --no-prefix ${script}`;
  const [command, ...args] = [...shell, 'sh', '-c', run];
  const { stdout, stderr } = spawnSync(command!, args, { encoding: 'utf8' });
  return [stdout.trim().split('\n').sort(), stderr];
}

describe('ranks of one host', () => {
  const RINGS = [
    { without: '0', transport: 'ipc' },
    { without: '1', transport: 'tcp' },
    { without: '0 and 1', transport: 'ipc' },
    { without: 'none', transport: 'ipc' },
  ];
  let lines: string[];
  beforeAll(() => {
    const [told, errors] = addOnTwoRanks(RINGS);
    expect(errors).toBe('');
    lines = told;
  });
  /** What the two ranks tell of a ring. */
  const linesOf = (i: number) => lines.filter(line => line.startsWith(`${i} `)).map(line => line.slice(2));

  test('have the memory mapped', () => {
    expect(linesOf(3)).toEqual(['0 3 3 true 0', '1 3 3 true 0']);
  });

  test.each(RINGS.slice(0, 3).map((ring, i) => ({ ...ring, i })))(
    'without koffi on rank $without, the ring works as well, over $transport',
    ({ without, i }) => {
      const told = linesOf(i);
      expect(told.map(line => line.slice(0, 5))).toEqual(['0 3 3', '1 3 3']);
      for (const rank of without.split(' and ')) expect(told[Number(rank)]).toContain('false');
    },
  );
});

testWhere(needs.namespaces)('where the memory is full, all goes by the links', () => {
  const mount = 'mount -t tmpfs -o size=1m none /dev/shm && ip link set lo up &&';
  const told = addOnTwoRanks([{ without: 'none' }], ['unshare', '-Urmn'], mount);
  expect(told).toEqual([['0 0 3 3 false 0', '0 1 3 3 false 0'], '']);
});

import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import files from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { FolderLock } from '../../src/checkpoint/folder-lock';
import { cleanUpRanks, failureOf, type RankProcess, startRanks } from '../support/rings';
import { localRanks } from './support';

let dir: string;
const locks: FolderLock[] = [];
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-lock-'));
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const lock of locks.splice(0)) lock.release();
  await cleanUpRanks();
  rmSync(dir, { recursive: true, force: true });
});

/** A time between two beats that no test waits for. */
const NEVER = 2 ** 30;

/** The locks of the ranks of a run in this process. */
function locksOf(worldSize: number, beatMs = NEVER, folder = dir): FolderLock[] {
  const made = Array.from({ length: worldSize }, () => new FolderLock(folder, 'run-8', beatMs));
  locks.push(...made);
  return made;
}
const holdAll = (all: readonly FolderLock[], isOptional = false) => {
  const ranks = localRanks(all.length);
  return Promise.all(all.map((lock, rank) => lock.hold(ranks[rank]!, isOptional)));
};
const hold = async (beatMs = NEVER) => void (await holdAll(locksOf(1, beatMs)));

interface Content {
  readonly token: string;
  readonly processes: readonly { readonly place: string; readonly pid: number; readonly start: string }[];
}
const file = () => path.join(dir, 'gradring.lock');
const content = () => JSON.parse(readFileSync(file(), 'utf8')) as Content;
/** Changes what the lock says of its first process. */
const edit = (change: object) => {
  const { processes, ...others } = content();
  writeFileSync(file(), JSON.stringify({ ...others, token: 'other', processes: [{ ...processes[0]!, ...change }] }));
};

/** A process that does not exist: its number is larger than any. */
const ENDED = { pid: 2 ** 22 + 1 };

/** A process that takes the lock, says so, and holds it. */
async function holder(): Promise<RankProcess> {
  const [rank] = await startRanks(
    1,
    `const { FolderLock } = require(${JSON.stringify(path.join(__dirname, '../../dist/checkpoint/folder-lock.js'))});
     const ring = { rank: 0, worldSize: 1, allGather: async bytes => [bytes] };
     setInterval(() => {}, 1000);
     process.once('SIGTERM', () => process.exit(0));
     await new FolderLock(${JSON.stringify(dir)}, 'run-7').hold(ring, false).catch(error => say(error.code));
     say('done');`,
  );
  await rank!.said('done');
  return rank!;
}

test('another run is refused, and told who has the folder', async () => {
  const { child, ended } = await holder();
  const before = content();
  const error = await failureOf(hold());
  expect(error.code).toBe('ERR_CHECKPOINT_IN_USE');
  const who = `${dir} is in use by another run (run-7): node, process ${child.pid} on ${hostname()}, since 20`;
  expect(error.message).toContain(who);
  expect(content()).toEqual(before);
  child.kill('SIGTERM');
  await ended;
  expect(readdirSync(dir)).toEqual([]); // given back at its end
  await hold();
});

test('what a crash leaves does not count, at once', async () => {
  const { child, ended } = await holder();
  child.kill('SIGKILL');
  await ended;
  expect(content().processes[0]!.pid).toBe(child.pid);
  await hold();
  expect(content().processes[0]!.pid).toBe(process.pid);
  expect(readdirSync(dir)).toEqual(['gradring.lock']);
});

test('a process that has the number of one that has ended is another one', async () => {
  await holder();
  edit({ start: '7' });
  await hold();
  expect(content().processes[0]!.pid).toBe(process.pid);
});

test('of runs that begin at the same moment, one has the folder', async () => {
  const all = await Promise.all(Array.from({ length: 4 }, holder));
  const refused = all.filter(({ stdout }) => stdout.includes('ERR_CHECKPOINT_IN_USE'));
  expect(refused).toHaveLength(3);
  const [winner] = all.filter(each => !refused.includes(each));
  expect(content().processes[0]!.pid).toBe(winner!.child.pid);
});

test('of two runs that take over the lock of a third at the same moment, one has the folder', async () => {
  await hold();
  edit(ENDED);
  // The other run takes the lock over when this one has decided to, and is about to move or remove what it has read.
  const others: RankProcess[] = [];
  const atTheSameMoment = async (changed: unknown) => {
    if (changed === file() && others.length === 0) others.push(await holder());
  };
  const { rename, rm } = files;
  jest.spyOn(files, 'rename').mockImplementation(async (from, to) => {
    await atTheSameMoment(from);
    await rename(from, to);
  });
  jest.spyOn(files, 'rm').mockImplementation(async (removed, options) => {
    await atTheSameMoment(removed);
    await rm(removed, options);
  });
  const error = await failureOf(hold());
  expect(error.code).toBe('ERR_CHECKPOINT_IN_USE');
  expect(others[0]!.stdout).not.toContain('ERR_CHECKPOINT_IN_USE');
  expect(content().processes[0]!.pid).toBe(others[0]!.child.pid);
  expect(readdirSync(dir)).toEqual(['gradring.lock']);
});

describe('a run on another host', () => {
  const ELSEWHERE = { place: 'another boot pid:[1]' };
  let printed: jest.SpyInstance;
  beforeEach(async () => {
    printed = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    await hold();
    edit(ELSEWHERE);
  });

  test('has the folder as long as it renews the time of the lock', async () => {
    const times = setInterval(() => utimesSync(file(), new Date(), new Date()), 20);
    try {
      const error = await failureOf(hold(100));
      expect(error.code).toBe('ERR_CHECKPOINT_IN_USE');
    } finally {
      clearInterval(times);
    }
    expect(printed.mock.calls).toEqual([
      [expect.stringMatching(/was in use by a run on .* since 20.*It takes 1 s to see whether that has ended/)],
    ]);
  });

  test('has it no more when it does not', async () => {
    await hold(20);
    expect(content().processes[0]!.pid).toBe(process.pid);
    expect(content().token).not.toBe('other');
  });
});

test('a run that has the lock renews its time', async () => {
  await hold(20);
  const old = new Date('2020-01-01');
  utimesSync(file(), old, old);
  while (statSync(file()).mtimeMs === old.getTime()) await new Promise(setImmediate);
});

test('all ranks of a run share the lock, and it names all of them', async () => {
  const run = locksOf(3);
  await holdAll(run);
  const { token, processes } = content();
  expect(processes.map(({ pid }) => pid)).toEqual([process.pid, process.pid, process.pid]);
  await holdAll(run);
  expect(content().token).toBe(token);
  // A rank is lost, and another takes its place as rank 0. It does not know the lock.
  await holdAll([...locksOf(1), run[2]!]);
  expect(content()).toMatchObject({ token, processes: [{}, {}] });
  expect(content().processes).toHaveLength(2);
});

test('each rank may have a folder of its own', async () => {
  const ranks = localRanks(2);
  const own = [0, 1].map(rank => locksOf(1, NEVER, path.join(dir, String(rank)))[0]!);
  await Promise.all(own.map((lock, rank) => lock.hold(ranks[rank]!, false)));
  const [first, second] = [0, 1].map(rank => readFileSync(path.join(dir, String(rank), 'gradring.lock'), 'utf8'));
  expect(first).toBe(second);
  own[0]!.release();
  expect([0, 1].map(rank => existsSync(path.join(dir, String(rank), 'gradring.lock')))).toEqual([false, true]);
});

test('in one program the lock passes to the checkpoint that asks last, and the other is refused from then on', async () => {
  const [first, second] = [locksOf(1), locksOf(1)];
  for (const each of [first, second, second]) await holdAll(each);
  const error = await failureOf(holdAll(first));
  expect(error.code).toBe('ERR_CHECKPOINT_IN_USE');
  expect(error.message).toMatch(
    /has been taken over by another checkpoint of this program, since .* a folder of its own/,
  );
  first[0]!.release();
  expect(existsSync(file())).toBe(true);
  await holdAll(second);
});

test('a run whose lock another one has taken over is refused, also when that has ended', async () => {
  const run = locksOf(1);
  await holdAll(run);
  edit(ENDED);
  const error = await failureOf(holdAll(run));
  expect(error.message).toMatch(/has been taken over by another run .* process 4194305/);
});

test.each([
  ['is empty', ''],
  ['has no processes', JSON.stringify({ token: 'a', run: '', program: '', since: '', processes: [] })],
  ['has no numbers', JSON.stringify({ token: 'a', run: '', program: '', since: '', processes: [{ pid: '1' }] })],
])('a lock that %s, as after a loss of power, does not count', async (_, text) => {
  writeFileSync(file(), text);
  const run = locksOf(1);
  await holdAll(run);
  writeFileSync(file(), text);
  await holdAll(run);
  expect(content().processes[0]!.pid).toBe(process.pid);
});

test('where nothing can be written, it is an error to save, but not to resume', async () => {
  const nowhere = locksOf(1, NEVER, '/dev/null/x');
  await holdAll(nowhere, true);
  const error = await failureOf(holdAll(nowhere));
  expect(error.code).toBe('ERR_CHECKPOINT');
  expect(error.message).toMatch(/cannot write \/dev\/null\/x: ENOTDIR/);
});

import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { spawnSync } from 'node:child_process';
import { Communicator } from '../../src/communicator/communicator';
import type { GradringError } from '../../src/errors';
import { monotonicMicroseconds, Observer } from '../../src/observer';
import { Timeline } from '../../src/timeline/timeline';
import { createTimelineFile, type TimelineFile } from '../../src/timeline/timeline-file';
import type { ThreadName } from '../../src/timeline/trace-event';
import { failureOf } from '../support/rings';
import { overlaps, readEvents, spansOf } from './support';

const DIST = path.join(__dirname, '../../dist');

let folder: string;
const open: Observer[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'timeline-'));
});

afterEach(() => {
  for (const observer of open.splice(0)) observer.close();
  rmSync(folder, { recursive: true });
  jest.restoreAllMocks();
  jest.useRealTimers();
});

/** The observer of a thread whose spans are written to the file. */
function observerOf(file: TimelineFile, thread: ThreadName): Observer {
  const observer = new Observer();
  observer.listen(new Timeline(file, thread));
  open.push(observer);
  return observer;
}

/** The time as a file has it. */
function now({ clockOrigin }: TimelineFile): number {
  return Math.floor(clockOrigin + monotonicMicroseconds());
}

describe('a file', () => {
  test('names the rank and its threads for viewers, before anything was recorded', () => {
    const file = createTimelineFile(path.join(folder, 'made', 'here'), 3, 4);
    expect(file.path).toBe(path.join(folder, 'made/here/rank-3.json'));
    expect(readEvents(file.path)).toEqual([
      { ph: 'M', name: 'process_name', pid: 16, tid: 16, args: { name: 'rank 3' } },
      { ph: 'M', name: 'process_sort_index', pid: 16, tid: 16, args: { sort_index: 3 } },
      ...['training', 'comm', 'comm, to the left', 'sends', 'sends, to the left'].flatMap((name, i) => [
        { ph: 'M', name: 'thread_name', pid: 16, tid: 16 + i, args: { name } },
        { ph: 'M', name: 'thread_sort_index', pid: 16, tid: 16 + i, args: { sort_index: i } },
      ]),
    ]);
  });

  test('replaces that of an older run, and removes those of ranks that there are no more', () => {
    const names = ['rank-0.json', 'rank-1.json', 'rank-2.json', 'rank-10.json', 'timeline.json', 'rank-x.json'];
    for (const name of names) writeFileSync(path.join(folder, name), 'old');
    createTimelineFile(folder, 1, 2);
    const left = names.filter(name => existsSync(path.join(folder, name)));
    expect(left).toEqual(['rank-0.json', 'rank-1.json', 'timeline.json', 'rank-x.json']);
    expect(readFileSync(path.join(folder, 'rank-0.json'), 'utf8')).toBe('old');
    expect(readEvents(path.join(folder, 'rank-1.json'))).toHaveLength(12);
  });

  test('that cannot be made is a coded error, before a ring is sought', async () => {
    const directory = path.join(folder, 'file');
    writeFileSync(directory, '');
    const words = /timeline cannot be written to .*file\/rank-1\.json: .*EEXIST|ENOTDIR/;
    const place = { rank: 1, worldSize: 2, masterPort: 1 };
    const error = await failureOf(Communicator.connect({ ...place, timeline: directory }));
    expect(error).toMatchObject({ code: 'ERR_TIMELINE', rank: 1, message: expect.stringMatching(words) as string });
  });
});

describe('a span', () => {
  test('tells what took how long, in a format that viewers know', () => {
    const file = createTimelineFile(folder, 1, 2);
    const observer = observerOf(file, 'comm');
    const before = now(file);
    const start = observer.startOf('collective')!;
    expect(observer.record('encode', { tensors: 2 }, () => 'result')).toBe('result');
    observer.ended('collective', start, { sequence: 4 }, 'barrier()');
    observer.close();
    const [encode, barrier] = spansOf(readEvents(file.path)) as [object, object];
    const whole = expect.any(Number) as number;
    const common = { ph: 'X', pid: 6, tid: 7, ts: whole, dur: whole };
    expect(encode).toEqual({ ...common, name: 'encode', cat: 'span', args: { tensors: 2 } });
    expect(barrier).toEqual({ ...common, name: 'barrier()', cat: 'collective', args: { sequence: 4 } });
    expect((barrier as { ts: number }).ts).toBeLessThanOrEqual((encode as { ts: number }).ts);
    for (const { ts, dur } of spansOf(readEvents(file.path))) {
      expect([Number.isSafeInteger(ts), Number.isSafeInteger(dur), ts >= before, dur >= 0]).not.toContain(false);
    }
  });

  test('lasts until a promise settles, and is recorded when what it is about fails', async () => {
    const file = createTimelineFile(folder, 0, 1);
    const observer = observerOf(file, 'training');
    let resolve!: (value: number) => void;
    const pending = observer.record('wait', {}, () => new Promise<number>(settle => (resolve = settle)));
    observer.record('copy', {}, () => undefined);
    resolve(5);
    expect(await pending).toBe(5);
    const broken = () => {
      throw new Error('broken');
    };
    expect(() => observer.record('apply', {}, broken)).toThrow('broken');
    await expect(observer.record('send', {}, async () => broken())).rejects.toThrow('broken');
    observer.close();
    const spans = spansOf(readEvents(file.path));
    expect(spans.map(({ name }) => name)).toEqual(['copy', 'wait', 'apply', 'send']);
    expect(overlaps(spans)).toEqual([]);
    const [copy, wait] = spans as [(typeof spans)[0], (typeof spans)[0]];
    expect(wait.ts).toBeLessThanOrEqual(copy.ts);
    expect(wait.ts + wait.dur).toBeGreaterThanOrEqual(copy.ts + copy.dur);
  });
});

describe('what was recorded', () => {
  test('is held up to 64 KB, then written as whole lines', () => {
    const file = createTimelineFile(folder, 0, 1);
    const observer = observerOf(file, 'comm');
    const empty = statSync(file.path).size;
    const span = () => observer.record('send', { filler: 'x'.repeat(1000) }, () => undefined);
    for (let i = 0; i < 40; i++) span();
    expect(statSync(file.path).size).toBe(empty);
    for (let i = 0; i < 40; i++) span();
    expect(statSync(file.path).size).toBeGreaterThan(empty + 64 * 1024);
    expect(spansOf(readEvents(file.path)).length).toBeLessThan(80);
    observer.close();
    span();
    expect(spansOf(readEvents(file.path))).toHaveLength(80);
  });

  test('is written every second', () => {
    jest.useFakeTimers();
    const file = createTimelineFile(folder, 0, 1);
    const observer = observerOf(file, 'comm');
    observer.record('send', {}, () => undefined);
    jest.advanceTimersByTime(999);
    expect(spansOf(readEvents(file.path))).toHaveLength(0);
    jest.advanceTimersByTime(1);
    expect(spansOf(readEvents(file.path))).toHaveLength(1);
  });

  test.each(['', 'process.exit(3);', `throw new Error('on purpose');`])('is written when a process ends: %s', end => {
    const source = `
      const { Observer } = require(${JSON.stringify(path.join(DIST, 'observer.js'))});
      const { Timeline } = require(${JSON.stringify(path.join(DIST, 'timeline/timeline.js'))});
      const { createTimelineFile } = require(${JSON.stringify(path.join(DIST, 'timeline/timeline-file.js'))});
      const observer = new Observer();
      observer.listen(new Timeline(createTimelineFile(${JSON.stringify(folder)}, 0, 1), 'training'));
      observer.record('copy', {}, () => undefined);
      ${end}`;
    spawnSync(process.execPath, ['-e', source], { timeout: 20_000 });
    expect(spansOf(readEvents(path.join(folder, 'rank-0.json'))).map(({ name }) => name)).toEqual(['copy']);
  });

  test('of two threads goes to one file, by one clock, and lines never mix', async () => {
    const file = createTimelineFile(folder, 0, 1);
    const source = `
      const { workerData, parentPort } = require('node:worker_threads');
      const { monotonicMicroseconds, Observer } = require(${JSON.stringify(path.join(DIST, 'observer.js'))});
      const { Timeline } = require(${JSON.stringify(path.join(DIST, 'timeline/timeline.js'))});
      const observer = new Observer();
      observer.listen(new Timeline(workerData.file, workerData.thread));
      const filler = workerData.thread.repeat(50);
      for (let i = 0; i < 10_000; i++) observer.record('copy', { i, filler }, () => undefined);
      parentPort.postMessage(Math.floor(workerData.file.clockOrigin + monotonicMicroseconds()));
      observer.close();`;
    const before = now(file);
    const ends = await Promise.all(
      ['training', 'comm'].map(thread => {
        const worker = new Worker(source, { eval: true, workerData: { file, thread } });
        return new Promise<number>((resolve, reject) => {
          let end: number;
          worker.on('message', (time: number) => (end = time));
          worker.once('error', reject);
          worker.once('exit', () => resolve(end));
        });
      }),
    );
    const after = now(file);
    for (const end of ends) expect(before <= end && end <= after).toBe(true);
    const spans = spansOf(readEvents(file.path));
    for (const [tid, thread] of [[1, 'training'] as const, [2, 'comm'] as const]) {
      const ofThread = spans.filter(span => span.tid === tid);
      expect(ofThread.map(({ args }) => args['i'])).toEqual(Array.from({ length: 10_000 }, (_, i) => i));
      expect(ofThread.every(({ args }) => args['filler'] === thread.repeat(50))).toBe(true);
    }
    expect(spans[0]!.ts).toBeGreaterThanOrEqual(before);
  });

  test('and does not fit on the disk is told once, and nothing fails', () => {
    const told = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    const file = { ...createTimelineFile(folder, 2, 3), path: '/dev/full' };
    for (const thread of ['training', 'comm'] as const) {
      const timeline = new Timeline(file, thread);
      for (let i = 0; i < 3; i++) {
        timeline.onSpan({ kind: 'copy', name: 'copy', start: 0, end: 1, args: {} });
        timeline.flush();
      }
      timeline.close();
    }
    const words = /^gradring: the timeline of rank 2 ends here: \/dev\/full: ENOSPC/;
    expect(told.mock.calls).toEqual([[expect.stringMatching(words)]]);
  });
});

test('the errors of timelines are gradring errors', () => {
  const attempt = () => createTimelineFile('/dev/null/x', 0, 1);
  expect(attempt).toThrow(expect.objectContaining({ code: 'ERR_TIMELINE' } satisfies Partial<GradringError>));
});

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Merged } from '../../src/timeline/merge-timelines';
import { SPAN_KINDS } from '../../src/observer';
import { processNumber, type SpanEvent, type TraceEvent } from '../../src/timeline/trace-event';
import { gradringHere } from '../launcher/run-here';
import { cleanUp, gradring, ROOT, script, temporaryFolder } from '../launcher/support';
import { overlaps, readEvents, spansOf } from './support';

const RANKS = 4;
const STEPS = 3;

/** Steps by both ways of travel: the first, of a dense warm-up, by the dense ring. */
const TRAINING = `
  const { connect, dgc, loadBackend } = require(${JSON.stringify(path.join(ROOT, 'dist'))});
  (async () => {
    const { tf } = await loadBackend({ backend: 'cpu' });
    const ring = await connect();
    await ring.allReduce(new Float32Array(1000));
    ring.allGatherSync(new Int32Array(ring.rank), { variableLength: true });
    ring.broadcastSync(new Float32Array(10), { root: 1 });
    ring.sparseAllReduceSync({ indices: Uint32Array.of(ring.rank), values: Float32Array.of(1), elementCount: 100_000 });
    const w = tf.variable(tf.zeros([100, 100]), true, 'w');
    const compression = dgc({ sparsity: 0.99, warmUpSteps: 1, warmUp: 'dense' });
    const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression });
    for (let step = 0; step < ${STEPS}; step++) optimizer.minimize(() => w.sub(ring.rank).square().mean());
    process.exitCode = 0;
  })();`;

let folder: string;
let events: TraceEvent[][];
let spans: SpanEvent[][];

beforeAll(async () => {
  folder = path.join(temporaryFolder(), 'trace');
  const program = gradring('run', '-n', String(RANKS), '--timeline', folder, script(TRAINING));
  const { exitCode } = await program.exited;
  expect({ exitCode, stderr: program.stderr }).toEqual({ exitCode: 0, stderr: '' });
  events = Array.from({ length: RANKS }, (_, rank) => readEvents(path.join(folder, `rank-${rank}.json`)));
  spans = events.map(spansOf);
});

afterAll(cleanUp);

const named = (rank: number, ...names: string[]) => spans[rank]!.filter(({ name }) => names.includes(name));

test('each rank writes a file of valid events', () => {
  expect(readdirSync(folder).sort()).toEqual(['rank-0.json', 'rank-1.json', 'rank-2.json', 'rank-3.json']);
  for (const [rank, ofRank] of events.entries()) {
    for (const event of ofRank) {
      expect(event).toMatchObject({ name: expect.any(String) as string, pid: processNumber(rank) });
      expect([0, 1, 2, 3, 4]).toContain(event.tid - event.pid);
      expect(Object.values(event.args).every(value => ['string', 'number'].includes(typeof value))).toBe(true);
      if (event.ph === 'M') continue;
      expect(event.ph).toBe('X');
      expect(['span', 'collective']).toContain(event.cat);
      expect(Number.isSafeInteger(event.ts) && Number.isSafeInteger(event.dur) && event.dur >= 0).toBe(true);
    }
  }
});

test('every kind of span is there, on its thread', () => {
  for (let rank = 0; rank < RANKS; rank++) {
    const training = processNumber(rank);
    const kinds = (tid: number) => SPAN_KINDS.filter(kind => named(rank, kind).some(span => span.tid === tid));
    expect(kinds(training)).toEqual(['copy', 'apply', 'wait']);
    expect(kinds(training + 1)).toEqual(['compress', 'encode', 'receive', 'decode', 'wait']);
    expect(kinds(training + 2)).toEqual(['receive', 'wait']);
    expect(kinds(training + 3)).toEqual(['send', 'forward']);
    expect(kinds(training + 4)).toEqual(['send']); // one hop to the left, where nothing is forwarded
  }
});

test('spans nest: none begins within another and ends after it', () => {
  for (const ofRank of spans) expect(overlaps(ofRank)).toEqual([]);
});

test('collectives enclose what belongs to them, but arrivals, which may come before', () => {
  for (let rank = 0; rank < RANKS; rank++) {
    const collectives = spans[rank]!.filter(({ cat }) => cat === 'collective');
    expect(collectives.map(({ args }) => args['sequence'])).toEqual(collectives.map((_, sequence) => sequence));
    expect(collectives.map(({ name }) => name.replace(/\(.*/, '')).slice(0, 8)).toEqual([
      ...['allReduce', 'allGather', 'broadcast', 'sparseAllReduce', 'the first optimizer step'],
      ...['an optimizer step', 'an optimizer step', 'an optimizer step'],
    ]);
    expect(collectives[0]!.name).toBe('allReduce(sum, float32[1000])');
    for (const { name, cat, ts, dur, args } of spans[rank]!) {
      if (args['sequence'] === undefined || cat === 'collective' || name === 'receive') continue;
      const outer = collectives[args['sequence'] as number]!;
      expect(outer.ts <= ts && ts + dur <= outer.ts + outer.dur).toBe(true);
    }
  }
});

// Links and lanes keep the order of their own frames only.
test('what a rank sends or forwards comes to the next, frame by frame', () => {
  const frames = (rank: number, direction: string, ...names: string[]) =>
    named(rank, ...names)
      .filter(({ args }) => args['direction'] === direction)
      .map(({ args: { sequence, part, origin, bytes } }) => [sequence, part, origin, bytes].join())
      .sort();
  for (let rank = 0; rank < RANKS; rank++) {
    const right = frames(rank, 'right', 'send', 'forward');
    expect(right.length).toBeGreaterThan(10);
    expect(frames((rank + 1) % RANKS, 'right', 'receive')).toEqual(right);
    const left = frames(rank, 'left', 'send', 'forward');
    expect(left.length).toBeGreaterThan(5);
    expect(frames((rank + RANKS - 1) % RANKS, 'left', 'receive')).toEqual(left);
  }
});

test('spans tell what they are about', () => {
  const tensors = { tensors: 1 };
  const [copy, apply] = [named(1, 'copy'), named(1, 'apply')];
  const steps = Array.from({ length: STEPS }, (_, step) => ({ step, tensors: 1, bytes: 40_000 }));
  expect(copy.map(({ args }) => args)).toEqual(steps);
  expect(apply.map(({ args }) => args)).toEqual(steps);
  const stages = (kind: string) => named(1, kind).map(({ args }) => args['stage']);
  expect(stages('compress')).toEqual(['select', 'settle', 'select', 'settle', 'select', 'settle']);
  // By the dense ring nothing is encoded or decoded. The first ones are sparseAllReduce's.
  expect(stages('encode')).toEqual(['payload', 'payload', 'payload']);
  expect(stages('decode')).toEqual(['sum', 'means', 'average', 'sum', 'average', 'sum', 'average']);
  expect(named(1, 'encode')[1]!.args).toMatchObject({ sequence: 6, ...tensors });
  const calls = named(1, 'wait').filter(({ tid, pid }) => tid === pid);
  expect(calls.map(({ args }) => args['call']).filter(call => call === 'exchange')).toHaveLength(STEPS);
});

describe('gradring timeline merge', () => {
  test('makes one valid trace of them, which nests, and in which no frame comes before it was sent', async () => {
    const program = gradring('timeline', 'merge', folder, '--json');
    expect(await program.exited).toEqual({ exitCode: 0, signal: null });
    expect(program.stderr).toBe('');
    const merged = JSON.parse(program.stdout) as Merged;
    expect(merged).toMatchObject({ output: path.join(folder, 'timeline.json'), warnings: [] });
    expect(merged.ranks.map(({ rank, clockOffsetUs }) => [rank, typeof clockOffsetUs])).toEqual([
      ...[[0, 'number'] as const, [1, 'number'] as const, [2, 'number'] as const, [3, 'number'] as const],
    ]);
    for (const { spansMs } of merged.ranks) expect(Object.values(spansMs).every(ms => ms > 0)).toBe(true);
    const all = spansOf(JSON.parse(readFileSync(merged.output, 'utf8')) as TraceEvent[]);
    expect(all).toHaveLength(spans.flat().length);
    expect(overlaps(all)).toEqual([]);
    for (let rank = 0; rank < RANKS; rank++) {
      const ofRank = (rank: number, ...names: string[]) =>
        all.filter(e => e.pid === processNumber(rank) && e.args['direction'] === 'right' && names.includes(e.name));
      const sent = ofRank(rank, 'send', 'forward');
      const came = ofRank((rank + 1) % RANKS, 'receive');
      expect(sent.every(({ ts }, i) => ts <= came[i]!.ts)).toBe(true);
    }
  });

  test('prints a table of what the ranks spent their time with', async () => {
    const output = path.join(temporaryFolder(), 'merged.json');
    const { exitCode, stdout } = await gradringHere('timeline', 'merge', folder, '--output', output);
    expect(exitCode).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^ *rank, ms +copy +compress .* apply +wait training +wait comm +wait comm, to the left$/);
    expect(lines.filter(line => /^ +[012] +\d/.test(line))).toHaveLength(9);
    expect(lines.at(-2)).toBe(`${output}: open it at https://ui.perfetto.dev`);
    expect(Array.isArray(JSON.parse(readFileSync(output, 'utf8')))).toBe(true);
  });

  test('says what is wrong in one line', async () => {
    const { exitCode, stderr } = await gradringHere('timeline', 'merge', temporaryFolder());
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^gradring: ERR_TIMELINE: .* has no timeline, such as rank-0\.json\.\n$/);
  });

  test('and timeline without a command have help', async () => {
    for (const args of [['timeline'], ['timeline', '--help'], ['timeline', 'merge', '--help']]) {
      const { exitCode, stdout } = await gradringHere(...args);
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(/Examples:\n[^]*gradring timeline merge trace/);
    }
  });
});

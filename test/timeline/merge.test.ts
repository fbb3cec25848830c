import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { mergeTimelines } from '../../src/timeline/merge-timelines';
import { createTimelineFile } from '../../src/timeline/timeline-file';
import { ELASTIC_RINGS, processNumber, RING_EVENT, type TraceEvent } from '../../src/timeline/trace-event';
import { failureOf } from '../support/rings';
import { spansOf } from './support';

let folder: string;
const file = (name: string) => path.join(folder, name);

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'timeline-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

function write(rank: number, events: readonly TraceEvent[], ring: Record<string, string | number> = {}): void {
  const place = { pid: processNumber(rank), tid: processNumber(rank) + 1 };
  const { path: written } = createTimelineFile(folder, rank, 99);
  const args = { ring: 'ab', rank, worldSize: 2, ...ring };
  const all: TraceEvent[] = [{ ph: 'M', name: RING_EVENT, ...place, args }, ...events];
  appendFileSync(written, all.map(event => `${JSON.stringify(event)},\n`).join(''));
}

const span = (rank: number, name: string, ts: number, dur: number, args = {}, thread = 1): TraceEvent => {
  const pid = processNumber(rank);
  return { ph: 'X', name, cat: 'span', ts, dur, pid, tid: pid + thread, args };
};

/** Rank 1's clock is 5 s ahead, and each frame takes 100 µs. */
function writeRing(): void {
  const frame = (sequence: number, origin: number) => ({ sequence, part: 0, origin, bytes: 8 });
  write(0, [
    span(0, 'copy', 500, 250, { step: 0 }, 0),
    span(0, 'wait', 750, 2_000, { call: 'exchange' }, 0),
    span(0, 'send', 1_000, 30, frame(0, 0)),
    span(0, 'receive', 2_100, 10, frame(0, 1)),
    span(0, 'wait', 1_500, 700, { sequence: 0 }),
  ]);
  write(1, [
    span(1, 'receive', 5_001_100, 10, frame(0, 0)),
    span(1, 'wait', 5_000_900, 300, { sequence: 0 }),
    span(1, 'send', 5_002_000, 40, frame(0, 1)),
    span(1, 'barrier()', 5_000_800, 1_300, { sequence: 0 }),
  ]);
}

test('the ranks come into one valid trace, on the clock of rank 0', async () => {
  writeRing();
  const { warnings, output, ranks } = await mergeTimelines(folder, file('out.json'));
  expect(warnings).toEqual([]);
  expect(output).toBe(file('out.json'));
  const events = JSON.parse(readFileSync(output, 'utf8')) as TraceEvent[];
  expect(spansOf(events).map(({ pid, name, ts, dur }) => [pid, name, ts, dur])).toEqual([
    [1, 'copy', 500, 250],
    [1, 'wait', 750, 2_000],
    [1, 'send', 1_000, 30],
    [1, 'receive', 2_100, 10],
    [1, 'wait', 1_500, 700],
    [6, 'receive', 1_100, 10],
    [6, 'wait', 900, 300],
    [6, 'send', 2_000, 40],
    [6, 'barrier()', 800, 1_300],
  ]);
  const names = events.filter(({ name }) => name === 'process_name' || name === 'thread_name');
  expect(names.map(({ pid, tid, args }) => [pid, tid, args['name']])).toEqual([
    ...[[1, 1, 'rank 0'] as const, [1, 1, 'training'] as const, [1, 2, 'comm'] as const],
    ...[[1, 3, 'comm, to the left'] as const, [1, 4, 'sends'] as const, [1, 5, 'sends, to the left'] as const],
    ...[[6, 6, 'rank 1'] as const, [6, 6, 'training'] as const, [6, 7, 'comm'] as const],
    ...[[6, 8, 'comm, to the left'] as const, [6, 9, 'sends'] as const, [6, 10, 'sends, to the left'] as const],
  ]);
  const none = { ...{ copy: 0, compress: 0, encode: 0, send: 0, receive: 0, forward: 0, decode: 0, apply: 0 } };
  expect(ranks).toEqual([
    {
      ...{ rank: 0, durationMs: 2.25, clockOffsetUs: 0 },
      spansMs: {
        ...none,
        copy: 0.25,
        send: 0.03,
        receive: 0.01,
        'wait training': 2,
        'wait comm': 0.7,
        'wait comm, to the left': 0,
      },
    },
    {
      ...{ rank: 1, durationMs: 1.3, clockOffsetUs: 5_000_000 },
      spansMs: {
        ...none,
        send: 0.04,
        receive: 0.01,
        'wait training': 0,
        'wait comm': 0.3,
        'wait comm, to the left': 0,
      },
    },
  ]);
});

test('a missing timeline is reported, and the clocks are not corrected', async () => {
  writeRing();
  rmSync(file('rank-0.json'));
  const { warnings, ranks } = await mergeTimelines(folder, file('out.json'));
  expect(warnings).toEqual([
    'The ring has 2 ranks, but the timeline of rank 0 is missing. The clocks of the ranks are not corrected.',
  ]);
  expect(ranks).toEqual([expect.objectContaining({ rank: 1, clockOffsetUs: null })]);
  const events = JSON.parse(readFileSync(file('out.json'), 'utf8')) as TraceEvent[];
  expect(spansOf(events)[0]).toMatchObject({ name: 'receive', ts: 5_001_100 });
});

test('ranks that never exchanged a frame are merged with a warning; a ring of one without', async () => {
  write(0, [span(0, 'copy', 1, 1)]);
  write(1, [span(1, 'copy', 1, 1)]);
  expect((await mergeTimelines(folder, file('out.json'))).warnings).toEqual([
    'No frame went around the ring. The clocks of the ranks are not corrected.',
  ]);
  rmSync(file('rank-1.json'));
  write(0, [span(0, 'copy', 1, 1)], { ring: 'alone', worldSize: 1 });
  expect(await mergeTimelines(folder, file('out.json'))).toMatchObject({
    warnings: [],
    ranks: [{ rank: 0, clockOffsetUs: null, durationMs: 0.001 }],
  });
});

test('a line that a crash has cut short is passed over', async () => {
  writeRing();
  appendFileSync(file('rank-1.json'), '{"ph":"X","name":"se');
  await mergeTimelines(folder, file('out.json'));
  expect(spansOf(JSON.parse(readFileSync(file('out.json'), 'utf8')) as TraceEvent[])).toHaveLength(9);
});

describe('an error says', () => {
  const messageOf = async (output = file('out.json')) => {
    const { code, message } = await failureOf(mergeTimelines(folder, output));
    expect(code).toBe('ERR_TIMELINE');
    return message;
  };

  test('that there is no folder, or no timeline in it', async () => {
    expect(await messageOf()).toBe(`${folder} has no timeline, such as rank-0.json.`);
    const { code, message } = await failureOf(mergeTimelines(file('nowhere'), file('out.json')));
    expect([code, message]).toEqual(['ERR_TIMELINE', expect.stringMatching(/cannot be read: ENOENT.*nowhere/)]);
  });

  test.each([{ ring: 'cd' }, { worldSize: 3 }])('which files are of different runs: %j', async other => {
    writeRing();
    write(1, [], other);
    expect(await messageOf()).toMatch(/rank-0\.json and .*rank-1\.json belong to different runs/);
  });

  test('that a file is another rank’s, or of a rank that joined no ring', async () => {
    write(0, [], { rank: 1 });
    expect(await messageOf()).toMatch(/rank-0\.json is the timeline of rank 1/);
    createTimelineFile(folder, 0, 2);
    expect(await messageOf()).toMatch(/rank-0\.json has no ring/);
  });

  test.each([
    'garbage',
    '',
    'null,',
    '{"ph":"X","name":"send","pid":1,"tid":2,"args":{}},',
    '{"ph":"X","name":"send","ts":"1","dur":1,"pid":1,"tid":2,"args":{}},',
    '{"ph":"X","name":"send","ts":1,"dur":1,"pid":1,"tid":2,"args":null},',
    '{"ph":"X","name":"send","ts":1,"dur":1,"pid":1,"args":{}},',
    '{"ph":"B","name":"send","ts":1,"dur":1,"pid":1,"tid":2,"args":{}},',
    '{"ph":"X","name":5,"ts":1,"dur":1,"pid":1,"tid":2,"args":{}},',
    '{"ph":"X","name":"send","ts":1e300,"dur":1,"pid":1,"tid":2,"args":{}},',
    '{"ph":"X","name":"send","ts":1,"dur":1,"pid":1,"tid":2,"args":{"sequence":{}}},',
  ])('which line of which file is damaged: %s', async line => {
    writeRing();
    const lines = readFileSync(file('rank-1.json'), 'utf8').split('\n');
    writeFileSync(file('rank-1.json'), lines.toSpliced(9, 0, line).join('\n'));
    expect(await messageOf()).toBe(`${file('rank-1.json')} is damaged: line 10 is no event of a timeline.`);
  });

  test('that a file cannot be read, or the output not be written', async () => {
    writeRing();
    expect(await messageOf(file('nowhere/out.json'))).toMatch(/cannot be written to .*out\.json: ENOENT/);
    expect(await messageOf('/dev/full')).toMatch(/cannot be written to \/dev\/full: ENOSPC/);
    expect(await messageOf(file('rank-1.json'))).toMatch(/rank-1\.json, is one of the files that are merged/);
    symlinkSync(file('rank-1.json'), file('link.json'));
    expect(await messageOf(file('link.json'))).toMatch(/link\.json, is one of the files that are merged/);
    expect(readFileSync(file('rank-1.json'), 'utf8')).not.toBe('');
    rmSync(file('rank-1.json'));
    mkdirSync(file('rank-1.json'));
    expect(await messageOf()).toMatch(/rank-1\.json cannot be read: EISDIR/);
  });

  test('that a line is longer than any, before the whole file is read', async () => {
    writeRing();
    truncateSync(file('rank-1.json'), 2 ** 34);
    expect(await messageOf()).toBe(
      `${file('rank-1.json')} is no timeline: it has a line of more than 1048576 characters.`,
    );
  });

  test.each([{ worldSize: 1e9 }, { worldSize: 0 }, { rank: 2 }, { rank: -1 }, { worldSize: 'two' }])(
    'that there is no such ring: %o',
    async ring => {
      write(0, [], ring);
      expect(await messageOf()).toBe(`${file('rank-0.json')} has no ring: its rank never joined one.`);
    },
  );
});

test('times that are far apart take no more memory than the frames', async () => {
  const frame = (sequence: number, origin: number) => ({ sequence, part: 0, origin, bytes: 8 });
  const far = 2 ** 52;
  write(
    0,
    [1, far].map((ts, i) => span(0, 'send', ts, 1, frame(i, 0))),
  );
  write(
    1,
    [2, far].map((ts, i) => span(1, 'receive', ts, 1, frame(i, 0))),
  );
  expect((await mergeTimelines(folder, file('out.json'))).warnings).toHaveLength(1);
});

test.each([
  [['a', 'a'], []],
  [['a', 'b'], ['The ranks of this elastic run were on 2 hosts. The clocks of the ranks are not corrected.']],
])('the rings of an elastic run, whose ranks were on the hosts %j, are warned of: %j', async (hosts, expected) => {
  for (const [rank, host] of hosts.entries()) write(rank, [], { ring: `${ELASTIC_RINGS}run`, host });
  expect((await mergeTimelines(folder, file('out.json'))).warnings).toEqual(expected);
});

import type { CollectiveRow } from '../../src/bench/collectives/row';
import { collectiveRows, runInRing, WARM } from '../bench/collectives/commands';
import { cleanUp, gradring } from '../launcher/support';

afterEach(cleanUp);

const number = expect.any(Number) as number;
const small = ['--max-bytes', '4M', '--step-factor', '64', '--iterations', '3', ...WARM];

// Of 3 ranks: busbw ÷ algbw, the bytes of the largest row, and what a rank then sends of it, headers aside.
const OF_THREE_RANKS = [
  ['all-reduce', { type: 'float32', op: 'sum' }, 4 / 3, 4 / 3],
  ['all-gather', { type: 'float32' }, 2 / 3, 2 / 3],
  ['reduce-scatter', { type: 'float32', op: 'sum' }, 2 / 3, 2 / 3],
  ['broadcast', { type: 'float32', root: 1 }, 1, 1],
  ['send-recv', { type: 'float32' }, 1, 1],
  ['send', { type: 'float32' }, 2, 1],
  ['reduce', { type: 'float32', op: 'sum', root: 1 }, 1, 4 / 3],
  ['gather', { type: 'float32', root: 1 }, 2 / 3, 2 / 3],
  ['scatter', { type: 'float32', root: 1 }, 2 / 3, 1],
  ['all-to-all', { type: 'float32' }, 2 / 3, 2],
] as const;
/** Those whose size is that of N parts. */
const IN_PARTS = ['all-gather', 'gather', 'scatter', 'all-to-all'];
const SPARSE =
  'sparse-all-reduce --elements 50000 --density 0.01,0.4 --way auto,sparse,dense --iterations 3 --warm-up 2';
const BARRIER = 'barrier --iterations 4 --transport tcp --warm-up 1';

describe('a ring of three', () => {
  let found: Record<string, readonly CollectiveRow[]>;
  beforeAll(async () => {
    const dense = OF_THREE_RANKS.map(([name]) => [name, ...small]);
    const commands = [...dense, ...[BARRIER, SPARSE].map(words => words.split(' '))];
    const results = await runInRing(3, commands.map(args => ({ args }))); // prettier-ignore
    expect(results.map(({ exitCodes }) => exitCodes)).toEqual(commands.map(() => [0, 0, 0]));
    found = Object.fromEntries(commands.map(([name], i) => [name, results[i]!.rows]));
  });

  test.each(OF_THREE_RANKS)('%s', (collective, options, busFactor, sentFraction) => {
    const rows = found[collective]!;
    expect(rows.map(({ elements }) => elements)).toEqual(IN_PARTS.includes(collective) ? [3, 66, 4_098, 262_146] : [1, 64, 4_096, 262_144]); // prettier-ignore
    for (const row of rows) {
      expect(row).toEqual({
        ...{ collective, ranks: 3, elements: number, bytes: 4 * row.elements, transport: 'auto', iterations: 3 },
        ...options,
        carriedBy: [collective === 'send' ? 'unix-socket' : 'shared-memory'],
        ...(['all-reduce', 'reduce'].includes(collective) && { algorithm: row.bytes < 65_536 ? 'gather' : 'ring' }),
        timeUs: { min: number, p50: number, p99: number },
        ...{ algbwGBps: number, busbwGBps: number, wireBytesSent: number, wrong: 0 },
      });
      const { timeUs, algbwGBps, busbwGBps, bytes } = row;
      expect(timeUs.min).toBeGreaterThan(0);
      expect(timeUs.p50).toBeGreaterThanOrEqual(timeUs.min);
      expect(timeUs.p99).toBeGreaterThanOrEqual(timeUs.p50);
      expect(algbwGBps / (bytes / timeUs.p50 / 1e3)).toBeCloseTo(1, 2);
      expect(busbwGBps / algbwGBps).toBeCloseTo(busFactor, 2);
    }
    const { bytes, wireBytesSent } = rows.at(-1)!;
    expect(wireBytesSent / (bytes * sentFraction)).toBeGreaterThanOrEqual(0.999);
    expect(wireBytesSent / (bytes * sentFraction)).toBeLessThan(1.01);
  });

  test('a barrier has no size', () => {
    const [row, ...more] = found['barrier']!;
    expect(row).toEqual({
      ...{ collective: 'barrier', ranks: 3, elements: 0, bytes: 0, transport: 'tcp', iterations: 4 },
      carriedBy: ['tcp'],
      timeUs: { min: number, p50: number, p99: number },
      ...{ algbwGBps: 0, busbwGBps: 0, wireBytesSent: number, wrong: 0 },
    });
    expect(more).toEqual([]);
  });

  test('a sparse all-reduce tells its parts, and how the entries travelled', () => {
    const rows = found['sparse-all-reduce']!;
    expect(rows.map(({ density, way, travelled }) => [density, way, travelled])).toEqual(
      [0.01, 0.4].flatMap(density => [
        [density, 'auto', 'sparse'],
        [density, 'sparse', 'sparse'],
        [density, 'dense', 'dense'],
      ]),
    );
    for (const row of rows) {
      expect(row).toEqual({
        ...{ collective: 'sparse-all-reduce', ranks: 3, elements: 50_000, bytes: 200_000, transport: 'auto' },
        carriedBy: [row.travelled === 'sparse' ? 'unix-socket' : 'shared-memory'],
        ...{ density: row.density, values: 'float16', way: row.way, travelled: row.travelled, iterations: 3 },
        timeUs: { min: number, p50: number, p99: number },
        timesMs: { compress: number, encode: number, wait: number, wire: number, decode: number },
        evenMs: { compress: number, encode: number, wait: number, wire: number, decode: number },
        ...{ algbwGBps: number, busbwGBps: number, wireBytesSent: number, wrong: 0 },
      });
      expect(row.timesMs!.compress).toBeGreaterThan(0);
      expect(row.wireBytesSent < 100_000).toBe(row.travelled === 'sparse');
    }
  });
});

describe('a ring of two', () => {
  const REDUCTIONS = [
    ['all-reduce', 'uint8', 'max'],
    ['reduce-scatter', 'int32', 'sum'],
    ['all-reduce', 'float64', 'mean'],
    ['reduce-scatter', 'float32', 'min'],
    ['all-reduce', 'bfloat16', 'mean'],
    ['reduce', 'float16', 'product'],
    ['reduce-scatter', 'int64', 'product'],
  ] as const;
  const SIZES = 'all-reduce --min-bytes 16K --max-bytes 1M --step-factor 64 --iterations 1 --warm-up 1';
  let typed: readonly (CollectiveRow | undefined)[];
  let ofSizes: readonly CollectiveRow[];
  beforeAll(async () => {
    const size = '--min-bytes 300001 --max-bytes 300001 --iterations 2 --warm-up 1';
    const commands = REDUCTIONS.map(([name, type, op]) => `${name} --type ${type} --op ${op} ${size}`);
    const all = [...commands, `${SIZES} --transport tcp --encryption on`];
    const results = await runInRing(2, all.map(words => ({ args: words.split(' ') }))); // prettier-ignore
    typed = results.map(({ rows }) => rows[0]);
    ofSizes = results.at(-1)!.rows;
  });

  test.each(REDUCTIONS.map((words, i) => [...words, i] as const))('%s: %s by %s', (collective, type, op, i) => {
    expect(typed[i]).toMatchObject({ collective, type, op, wrong: 0 });
  });

  test('rows tell what carried the data, and how arrays of their size were all-reduced', () => {
    expect(ofSizes.map(({ carriedBy, algorithm }) => [carriedBy, algorithm])).toEqual([
      [['tcp-lane-encrypted'], 'gather'],
      [['tcp-lane-encrypted'], 'ring'],
    ]);
  });
});

test('a ring of one is carried by nothing', async () => {
  const [alone] = await collectiveRows('all-reduce', '-n', '1', '--max-bytes', '4', '--iterations', '1', ...WARM);
  expect(alone).toMatchObject({ ranks: 1, carriedBy: [] });
  expect(alone).not.toHaveProperty('algorithm');
});

test('without --json it is a table; unchecked it has no column of wrong elements', async () => {
  const args = ['-n', '2', '--max-bytes', '16', '--iterations', '2', ...WARM];
  const program = gradring('bench', 'all-reduce', ...args);
  expect((await program.exited).exitCode).toBe(0);
  expect(program.stderr).toBe('');
  const [transport, algorithm, busbw, empty, headings, first, second, ...rest] = program.stdout.split('\n');
  expect(transport).toBe('transport: shared memory between ranks of one host, not encrypted (--transport auto)');
  expect(algorithm).toBe('algorithm: gathered whole by every rank');
  expect(busbw).toMatch(/^busbw is the rate .* Compare it with the speed of your network\.$/);
  expect(empty).toBe('');
  expect(headings).toMatch(
    /^size +count +type +op +time min µs +p50 µs +p99 µs +algbw GB\/s +busbw GB\/s +wire bytes a rank +#wrong$/,
  );
  expect(first).toMatch(/^ 4 B +1 +float32 +sum .* 0$/);
  expect(second).toMatch(/^16 B +4 +float32 +sum .* 0$/);
  expect(rest).toEqual(['']);
  const unchecked = gradring('bench', 'all-reduce', ...args.with(1, '1'), '--no-check');
  expect((await unchecked.exited).exitCode).toBe(0);
  expect(unchecked.stdout).toMatch(/wire bytes a rank\n/);
});

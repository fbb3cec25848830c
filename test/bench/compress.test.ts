import type { CompressRow } from '../../src/bench/compress';
import { gradringHere } from '../launcher/run-here';
import { cleanUp, gradring, waitUntil } from '../launcher/support';
import { benchOutput, benchOutputOfProcess, expectBenchRefusal } from './commands';

afterEach(cleanUp);

const output = (...args: string[]) => benchOutput('compress', ...args);
const outputOfProcess = (...args: string[]) => benchOutputOfProcess('compress', ...args);

const small = ['--elements', '100000', '--density', '0.01', '--iterations', '3'];

describe('--json', () => {
  test('is one object a line and nothing else', async () => {
    const text = await outputOfProcess(...small, '--json');
    expect(text).toMatch(/^\{.*\}\n$/);
    const row = JSON.parse(text) as CompressRow;
    const time = expect.any(Number) as number;
    expect(row).toEqual({
      bench: 'compress',
      elements: 100_000,
      density: 0.01,
      sent: 1000,
      timeMs: { min: time, p50: time, p99: time },
      floorMs: time,
      timesFloor: time,
      phaseMs: { compressMs: time, encodeMs: time, settleMs: time },
      values: 'float16',
      distribution: 'normal',
      iterations: 3,
      seed: 1,
    });
    expect(row.timeMs.min).toBeGreaterThan(0);
    expect(row.timeMs.p50).toBeGreaterThanOrEqual(row.timeMs.min);
    expect(row.timeMs.p99).toBeGreaterThanOrEqual(row.timeMs.p50);
    expect(row.timesFloor).toBeCloseTo(row.timeMs.p50 / row.floorMs, 1);
  });

  test('has a row for each combination of sizes and densities', async () => {
    const text = await output('--elements', '5000,1', '--density', '0.1,1', '--iterations=1', '--json');
    const rows = text.trim().split('\n').map(line => JSON.parse(line) as CompressRow); // prettier-ignore
    expect(rows.map(({ elements, density, sent }) => [elements, density, sent])).toEqual([
      [5000, 0.1, 500],
      [5000, 1, 5000],
      [1, 0.1, 1],
      [1, 1, 1],
    ]);
  });

  test('tells what was asked for', async () => {
    const args = ['--clip-norm', '0.5', '--distribution', 'sparse', '--seed', '7'];
    const row = JSON.parse(await output(...small, ...args, '--json')) as CompressRow;
    expect(row).toMatchObject({ clipNorm: 0.5, distribution: 'sparse', seed: 7 });
    expect(row.phaseMs.normMs).toBeGreaterThan(0);
  });
});

test('without --json it is a table, with the units in the headings', async () => {
  const [headings, first, second, ...rest] = (await output(...small.with(3, '0.01,0.25'))).split('\n');
  expect(headings).toMatch(
    /^elements  density    sent  floor p50 ms  step min ms .* × floor  compress ms  encode ms  settle ms$/,
  );
  expect(first).toMatch(/^ 100,000     0\.01   1,000 +\d+\.\d{3} /);
  expect(second).toMatch(/^ 100,000     0\.25  25,000 +\d+\.\d{3} /);
  expect(new Set([headings, first, second].map(line => line!.length)).size).toBe(1);
  expect(rest).toEqual(['']);
});

test.each([
  [['--elements', '0'], "--elements is '0'; it must be a whole number, 1 or more"],
  [['--elements', '1.5'], "--elements is '1.5'; it must be"],
  [['--elements', '10,,20'], "--elements is ''; it must be"],
  [['--elements', 'many'], "--elements is 'many'; it must be"],
  [['--elements', '300000000'], '--elements 300000000 at density 0.25 needs 6.3 GiB, but'],
  [['--elements', '1e300'], '--elements is '],
  [['--density', '0'], "--density is '0'; it must be more than 0 and at most 1"],
  [['--density', '0.1,1.01'], "--density is '1.01'; it must be"],
  [['--density', '-0.1'], "--density is '-0.1'; it must be"],
  [['--iterations', '0'], "--iterations is '0'; it must be"],
  [['--seed', '-1'], "--seed is '-1'; it must be"],
  [['--clip-norm', '0'], "--clip-norm is '0'; it must be a positive, finite norm"],
  [['--clip-norm', 'Infinity'], "--clip-norm is 'Infinity'; it must be"],
  [['--distribution', 'lapalce'], 'Did you mean laplace?'],
  [['--element', '5'], 'Unknown option: --element. Did you mean --elements?'],
  [['more'], 'Unexpected argument: more'],
])('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['compress', ...args], words),
);

describe('its end', () => {
  // The first row is there at once; the second would take minutes.
  const endless = ['--elements', '1000,4000000', '--density', '0.1', '--iterations', '5000', '--json'];

  test('by Ctrl-C is quiet', async () => {
    const program = gradring('bench', 'compress', ...endless);
    await waitUntil('the first row', () => program.stdout.includes('\n'));
    program.child.kill('SIGINT');
    expect(await program.exited).toEqual({ exitCode: null, signal: 'SIGINT' });
    expect(program.stderr).toBe('');
  });

  test('comes quietly if nobody reads on', async () => {
    const program = gradring('bench', 'compress', ...endless.with(1, '1000'), '--density', '0.1,0.2,0.3,0.4,0.5');
    program.child.stdout!.destroy();
    expect((await program.exited).exitCode).toBe(0);
    expect(program.stderr).toBe('');
  });
});

test.each([
  [['bench'], /gradring bench <benchmark>[^]*gradring bench compress .*Time the[^]*Examples:/],
  [['bench', '--help'], /gradring bench <benchmark>[^]*Examples:\n +gradring bench compress --elements/],
  [['bench', 'compress', '--help'], /--elements[^]*--density[^]*Examples:\n +gradring bench compress/],
  [['--help'], /gradring run .*[^]*gradring bench /],
])('%j shows help', async (args, pattern) => {
  const { stdout, ...rest } = await gradringHere(...args);
  expect(rest).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).toMatch(pattern);
});

test.each([
  ['compres', 'Did you mean compress?'],
  ['everything', 'Unknown command: everything'],
])('an unknown benchmark is an error: %s', async (name, words) => {
  const { exitCode, stderr } = await gradringHere('bench', name);
  expect(exitCode).toBe(2);
  expect(stderr).toContain(words);
});

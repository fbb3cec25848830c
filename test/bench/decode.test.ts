import type { DecodeRow } from '../../src/bench/decode';
import { cleanUp } from '../launcher/support';
import { benchOutput, benchOutputOfProcess, expectBenchRefusal } from './commands';

afterEach(cleanUp);

const output = (...args: string[]) => benchOutput('decode', ...args);
const outputOfProcess = (...args: string[]) => benchOutputOfProcess('decode', ...args);

const small = ['--elements', '100000', '--density', '0.01', '--ranks', '4', '--iterations', '3'];

describe('--json', () => {
  test('is one object a line and nothing else', async () => {
    const text = await outputOfProcess(...small, '--json');
    expect(text).toMatch(/^\{.*\}\n$/);
    const number = expect.any(Number) as number;
    const row = JSON.parse(text) as DecodeRow;
    expect(row).toEqual({
      bench: 'decode',
      elements: 100_000,
      density: 0.01,
      ranks: 4,
      values: 'float16',
      timeMs: { min: number, p50: number, p99: number },
      floorMs: number,
      timesFloor: number,
      payloadBytes: number,
      iterations: 3,
    });
    expect(row.timesFloor).toBeCloseTo(row.timeMs.p50 / row.floorMs, 1);
    // 1000 entries of some 8 + 9 bits.
    expect(row.payloadBytes).toBeGreaterThan(1500);
    expect(row.payloadBytes).toBeLessThan(3000);
  });

  test('has a row for each combination', async () => {
    const text = await output('--elements=5000,1', '--density=0.5', '--ranks=1,2', '--values=int8,log4', '--json');
    const rows = text.trimEnd().split('\n').map(line => JSON.parse(line) as DecodeRow); // prettier-ignore
    expect(rows.map(({ elements, ranks, values }) => [elements, ranks, values])).toEqual(
      [5000, 1].flatMap(elements => [1, 2].flatMap(ranks => ['int8', 'log4'].map(values => [elements, ranks, values]))),
    );
  });
});

test('without --json it is a table, with the units in the headings', async () => {
  const [headings, first, ...rest] = (await output(...small)).split('\n');
  expect(headings).toMatch(/^elements  density  ranks  values   payload bytes  floor p50 ms  sum min ms .* × floor$/);
  expect(first).toMatch(/^ 100,000     0\.01      4  float16 +\d,\d{3} /);
  expect(rest).toEqual(['']);
});

test.each([
  [['--elements', '0'], "--elements is '0'; it must be a whole number, 1 or more"],
  [['--elements', '300000000'], '--elements 300000000 at density 0.001 needs 4.5 GiB, but'],
  [['--density', '1'], "--density is '1'; it must be more than 0 and less than 1"],
  [['--ranks', '0'], "--ranks is '0'; it must be a whole number, 1 or more"],
  [['--ranks', '4,x'], "--ranks is 'x'; it must be"],
  [['--values', 'int9'], 'Did you mean int8?'],
  [['--iterations', '1.5'], "--iterations is '1.5'; it must be"],
  [['--rank', '5'], 'Unknown option: --rank. Did you mean --ranks?'],
])('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['decode', ...args], words),
);

test('--help lists the options', async () => {
  expect(await output('--help')).toMatch(/--elements[^]*--ranks[^]*Examples:\n +gradring bench decode/);
});

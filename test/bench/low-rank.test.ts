import type { LowRankRow } from '../../src/bench/low-rank';
import { cleanUp } from '../launcher/support';
import { benchOutput, expectBenchRefusal } from './commands';

afterEach(cleanUp);

const output = (...args: string[]) => benchOutput('low-rank', ...args);
const small = ['--shapes', '64x48', '--iterations', '3'];

test('--json is one object a line, one for each combination', async () => {
  const text = await output('--shapes=40x30,9x700', '--rank=2,4', '--ranks=1,3', '--iterations=2', '--json');
  const rows = text.trimEnd().split('\n').map(line => JSON.parse(line) as LowRankRow); // prettier-ignore
  expect(rows.map(({ rows, columns, rank, ranks }) => [rows, columns, rank, ranks])).toEqual(
    [[40, 30], [9, 700]].flatMap(shape => [2, 4].flatMap(rank => [1, 3].map(ranks => [...shape, rank, ranks]))), // prettier-ignore
  );
  for (const row of rows) {
    expect(row).toMatchObject({ bench: 'low-rank', density: 0.01, iterations: 2 });
    expect(row.nsPerElement).toBeCloseTo((row.timeMs.p50 * 1e6) / (row.rows * row.columns), 0);
    // Less than 4 bits for each number of the factors, and some bytes for each column.
    expect(row.messageBytes).toBeLessThan(row.rank * ((row.rows + row.columns) / 2 + 8));
    expect(row.timesDgc).toBeGreaterThan(0);
  }
  expect(rows[2]!.messageBytes).toBeGreaterThan(1.5 * rows[0]!.messageBytes);
});

test('without --json it is a table, with the units in the headings', async () => {
  const [headings, first, ...rest] = (await output(...small)).split('\n');
  expect(headings).toMatch(/^matrix +rank +ranks +message bytes +floor p50 ms +step min ms .* × DGC$/);
  expect(first).toMatch(/^64×48 +8 +4 +\d{3} /);
  expect(rest).toEqual(['']);
});

test.each([
  [['--shapes', '64'], /--shapes is '64'; it must be rows and columns, such as 512x256/],
  [['--shapes', '0x3'], /--shapes is '0x3'/],
  [['--shapes', '64x64,'], /--shapes is ''/],
  [['--shapes', '20000x20000'], /of at most 150 million elements/],
  [['--rank', '0'], "--rank is '0'; it must be a whole number, 1 or more"],
  [['--density', '1'], "--density is '1'; it must be more than 0 and less than 1"],
  [['--shape', '4x4'], 'Unknown option: --shape. Did you mean --shapes?'],
])('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['low-rank', ...args], words),
);

test('--help lists the options', async () => {
  expect(await output('--help')).toMatch(/--shapes[^]*--rank [^]*Examples:\n +gradring bench low-rank/);
});

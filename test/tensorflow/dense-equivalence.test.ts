import { largestError, runFixture } from './support';

/** If everything is sent, three ranks train like one process on the mean of their gradients. */
const CASES = [
  'momentum, sparsity 0',
  'Nesterov, sparsity 0',
  'momentum, noCompression()',
  'Nesterov, noCompression()',
  'sgd, noCompression()',
  'sgd, sparsity 0',
  'Adam, sparsity 0',
  'a dense warm-up that never ends',
];

type Results = Record<string, { ring: number[]; alone: number[] }>;

let byRank: readonly Results[];
beforeAll(async () => {
  byRank = await runFixture<Results>('dense-equivalence.js', { ranks: 3, input: { steps: 12 } });
});

test.each(CASES)('%s: the ring trains like one process on the mean gradient', name => {
  const [first, ...others] = byRank.map(results => results[name]!);
  expect(Math.max(...first!.alone.map(Math.abs))).toBeGreaterThan(0.1); // they did move
  expect(largestError(first!.ring, first!.alone)).toBeLessThan(1e-5);
  for (const other of others) expect(other.ring).toEqual(first!.ring);
});

test('all cases were tried', () => {
  expect(Object.keys(byRank[0]!).sort()).toEqual([...CASES].sort());
});

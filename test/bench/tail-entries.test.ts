import { uniformNumbers } from '../../src/bench/random';
import { tailEntries } from '../../src/bench/tail-entries';

test.each([
  [1, 1],
  [1000, 1],
  [1000, 900],
  [100_000, 100],
])('of %i elements %i different ones, in ascending order, with finite values', (elementCount, count) => {
  const { indices, values } = tailEntries(elementCount, count, uniformNumbers(1));
  expect([indices.length, values.length]).toEqual([count, count]);
  expect(indices.every((index, i) => index < elementCount && (i === 0 || index > indices[i - 1]!))).toBe(true);
  expect(values.every(Number.isFinite)).toBe(true);
});

test('the values are those beyond a threshold, of either sign, many near to it and few far away', () => {
  const { values } = tailEntries(1_000_000, 10_000, uniformNumbers(1));
  const beyond = Array.from(values, value => Math.abs(value) - 0.01 * Math.log(100));
  expect(Math.min(...beyond)).toBeGreaterThan(-1e-8);
  expect(beyond.reduce((sum, value) => sum + value, 0) / beyond.length).toBeCloseTo(0.01, 3);
  expect(Math.abs(values.filter(value => value < 0).length - 5000)).toBeLessThan(300);
});

test('each rank has its own', () => {
  const random = uniformNumbers(1);
  expect(tailEntries(10_000, 100, random)).not.toEqual(tailEntries(10_000, 100, random));
});

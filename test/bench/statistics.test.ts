import fc from 'fast-check';
import { percentile, rounded, timingsOf } from '../../src/bench/statistics';

test('one sample is all of its percentiles', () => {
  expect(timingsOf([3])).toEqual({ min: 3, p50: 3, p99: 3 });
});

test('numbers are ordered as numbers, and the samples left as they were', () => {
  const samples = [10, 9, 100, 2];
  expect(timingsOf(samples)).toEqual({ min: 2, p50: 9, p99: 100 });
  expect(samples).toEqual([10, 9, 100, 2]);
});

test('samples may be more than a call has arguments', () => {
  expect(timingsOf(Array.from({ length: 200_000 }, (_, i) => i + 1))).toEqual({ min: 1, p50: 100_000, p99: 198_000 });
});

test('of 200 samples the 99th percentile leaves two above', () => {
  expect(percentile(Array.from({ length: 200 }, (_, i) => i + 1), 99)).toBe(198); // prettier-ignore
});

test('a percentile is the smallest sample that enough samples do not exceed', () => {
  const samples = fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(samples, fc.integer({ min: 1, max: 100 }), (values, percent) => {
      const shareUpTo = (limit: number): number => values.filter(value => value <= limit).length / values.length;
      const enough = values.filter(value => shareUpTo(value) >= percent / 100);
      expect(percentile(values, percent)).toBe(Math.min(...enough));
    }),
  );
});

test('rounding', () => {
  expect(rounded(1.23456, 3)).toBe(1.235);
  expect(rounded(2, 6)).toBe(2);
});

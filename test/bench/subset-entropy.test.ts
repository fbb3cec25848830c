import { subsetBits } from '../../src/bench/subset-entropy';

/** log₂ C(n, k), exact but for the logarithm. */
function slowly(n: number, k: number): number {
  let subsets = 1n;
  for (let i = 0; i < k; i++) subsets = (subsets * BigInt(n - i)) / BigInt(i + 1);
  const digits = subsets.toString(2);
  return digits.length - 1 + Math.log2(Number(`0b${digits.slice(0, 53)}`) / 2 ** (Math.min(53, digits.length) - 1));
}

test.each([
  [1, 0, 0],
  [1, 1, 0],
  [5, 5, 0],
  [2, 1, 1],
  [5, 2, Math.log2(10)],
  [49, 6, Math.log2(13_983_816)],
])('of %i elements %i: %d bits', (elementCount, count, bits) => {
  expect(subsetBits(elementCount, count)).toBeCloseTo(bits, 10);
});

test.each([
  [1_000_000, 1000],
  [3000, 1024],
  [3000, 1025],
  [3000, 1976],
  [1_000_000, 1500],
])('of %i elements %i', (elementCount, count) => {
  expect(subsetBits(elementCount, count) / slowly(elementCount, count)).toBeCloseTo(1, 12);
});

test('of a hundred million elements', () => {
  // H(0.001) is 0.0114078 bits an element.
  expect(subsetBits(100_000_000, 100_000) / 100_000).toBeCloseTo(11.4077, 3);
});

/** Up to this many terms are added one by one. With more, Stirling's series is exact to the last bits of a double. */
const EXACT_UNTIL = 1024;

/**
 * log₂ C(elementCount, count): the bits that it takes to say which elements of a tensor are sent, if all subsets of
 * that size are equally likely. No code of indices takes fewer bits on average.
 */
export function subsetBits(elementCount: number, count: number): number {
  const fewer = Math.min(count, elementCount - count);
  if (fewer > EXACT_UNTIL) {
    return (logFactorial(elementCount) - logFactorial(fewer) - logFactorial(elementCount - fewer)) / Math.LN2;
  }
  let bits = 0;
  for (let i = 0; i < fewer; i++) bits += Math.log2((elementCount - i) / (i + 1));
  return bits;
}

/** ln n! by Stirling's series, for a large n. */
function logFactorial(n: number): number {
  return n * Math.log(n) - n + Math.log(2 * Math.PI * n) / 2 + 1 / (12 * n) - 1 / (360 * n ** 3);
}

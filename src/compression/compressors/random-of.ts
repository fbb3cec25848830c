/**
 * Numbers from 0 up to but not including 1, in multiples of 2⁻³², that depend on these whole numbers only (sfc32 by
 * Chris Doty-Humphrey).
 */
export function randomOf(...seeds: readonly number[]): () => number {
  let [a, b, c, counter] = [0x9e3779b9, 0x243f6a88, 0xb7e15162, 1];
  const next = (): number => {
    const sum = (a + b + counter++) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  };
  for (const seed of seeds) {
    a ^= seed;
    for (let i = 0; i < 12; i++) next();
  }
  return next;
}

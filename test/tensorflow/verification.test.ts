import { Verification } from '../../src/core/ring-agreement';

/** A rank in a ring of that generation. */
function rank(generation: number, every = 0, isElastic = true) {
  const ring = { generation, isElastic };
  return { ring, verification: new Verification(ring, every) };
}

test('every so many steps', () => {
  const { verification } = rank(0, 3, false);
  const verified = Array.from({ length: 7 }, (_, step) => verification.of(step + 1).verifies);
  expect(verified).toEqual([false, false, true, false, false, true, false]);
  expect(rank(0, 0, false).verification.of(1000).verifies).toBe(false);
});

test('and the first step in each elastic ring, on all ranks alike', () => {
  const [first, second] = [rank(0), rank(0)];
  const both = [first, second];
  const take = (step: number) => {
    const results = both.map(({ verification }) => verification.of(step));
    both.forEach(({ verification }, i) => verification.finishStep(results[i]!));
    return results.map(({ verifies }) => verifies);
  };
  expect([take(0), take(1)]).toEqual([
    [true, true],
    [false, false],
  ]);
  for (const { ring } of both) ring.generation = 1;
  // The second rank fails in the step, and takes the result in another ring.
  const result = first.verification.of(2);
  expect(result.verifies).toBe(true);
  for (const { ring } of both) ring.generation = 2;
  for (const { verification } of both) verification.finishStep(result);
  expect([take(3), take(4)]).toEqual([
    [true, true],
    [false, false],
  ]);
});

test('a number of steps that cannot be is refused', () => {
  for (const every of [-1, 0.5, NaN]) expect(() => rank(0, every)).toThrow(`verifyEvery is ${every}`);
});

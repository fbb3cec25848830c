import { type Distribution, DISTRIBUTIONS, GradientSource } from '../../src/bench/gradient-source';

const SMALLEST_NORMAL = 2 ** -126;

function gradient(distribution: Distribution, elementCount = 10_001, seed = 1, start = 0): Float32Array {
  const into = new Float32Array(elementCount).fill(NaN);
  new GradientSource(distribution, elementCount, seed).write(into, start);
  return into;
}

describe.each(DISTRIBUTIONS)('%s', distribution => {
  test('is finite, and the same for the same seed', () => {
    expect(gradient(distribution).every(Number.isFinite)).toBe(true);
    expect(gradient(distribution)).toEqual(gradient(distribution));
  });

  test('begins within the gradient, at the same places for the same seed', () => {
    const starts = [1, 2].map(() => {
      const source = new GradientSource(distribution, 7, 5);
      return Array.from({ length: 50 }, () => source.next());
    });
    expect(starts[0]).toEqual(starts[1]);
    for (const start of starts[0]!) expect([0, 1, 2, 3, 4, 5, 6]).toContain(start);
  });
});

test('a gradient that begins elsewhere is the same one, rotated', () => {
  const whole = Array.from(gradient('normal', 9));
  expect(Array.from(gradient('normal', 9, 1, 4))).toEqual([...whole.slice(4), ...whole.slice(0, 4)]);
});

test('seeds differ', () => expect(gradient('normal', 100, 1)).not.toEqual(gradient('normal', 100, 2)));

test.each<[Distribution, (values: readonly number[]) => boolean]>([
  ['normal', values => Math.abs(deviation(values) - 0.01) < 0.0003],
  ['laplace', values => Math.abs(deviation(values) - 0.01 * Math.SQRT2) < 0.0006],
  ['equal', values => new Set(values).size === 1 && values[0] !== 0],
  ['zero', values => values.every(value => value === 0)],
  ['one-huge', values => values.filter(value => Math.abs(value) > 1).length === 1],
  ['denormal', values => values.every(value => Math.abs(value) < SMALLEST_NORMAL) && new Set(values).size > 9000],
  ['sorted', values => values.every((value, i) => i === 0 || value >= values[i - 1]!)],
  ['sparse', values => Math.abs(values.filter(value => value !== 0).length - 100) < 40],
])('%s is what it says', (distribution, holds) => {
  expect(holds(Array.from(gradient(distribution)))).toBe(true);
});

test.each<Distribution>(['sorted', 'one-huge'])('%s stays where it is', distribution => {
  const source = new GradientSource(distribution, 100, 3);
  expect([1, 2, 3].map(() => source.next())).toEqual([0, 0, 0]);
});

function deviation(values: readonly number[]): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
}

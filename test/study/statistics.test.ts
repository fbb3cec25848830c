import fc from 'fast-check';
import { normalNumber, uniformNumbers } from '../../src/bench/random';
import {
  bootstrapInterval,
  type Interval,
  meanInterval,
  pairedDifferences,
  seedMeans,
  studentQuantile,
  verdictOf,
} from '../../src/study/statistics';

describe("the quantile of Student's t", () => {
  // Fisher and Yates, table III; the same figures are in Abramowitz and Stegun, table 26.10.
  test.each([
    [1, 6.314, 12.706, 63.657],
    [2, 2.92, 4.303, 9.925],
    [3, 2.353, 3.182, 5.841],
    [4, 2.132, 2.776, 4.604],
    [5, 2.015, 2.571, 4.032],
    [7, 1.895, 2.365, 3.499],
    [10, 1.812, 2.228, 3.169],
    [15, 1.753, 2.131, 2.947],
    [30, 1.697, 2.042, 2.75],
    [60, 1.671, 2.0, 2.66],
    [120, 1.658, 1.98, 2.617],
  ])('with %i degrees of freedom is that of the tables', (degrees, p95, p975, p995) => {
    const found = [0.95, 0.975, 0.995].map(probability => studentQuantile(probability, degrees));
    expect(found.map(value => Number(value.toFixed(3)))).toEqual([p95, p975, p995]);
  });

  const probabilities = fc.double({ min: 0.001, max: 0.999, noNaN: true });

  test('has its closed forms for one and two degrees of freedom', () => {
    fc.assert(
      fc.property(probabilities, p => {
        expect(studentQuantile(p, 1)).toBeCloseTo(Math.tan(Math.PI * (p - 0.5)), 8);
        expect(studentQuantile(p, 2)).toBeCloseTo((2 * p - 1) / Math.sqrt(2 * p * (1 - p)), 8);
      }),
    );
  });

  test('is where the integral of the density reaches the probability', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 60 }), fc.double({ min: 0.5, max: 0.999, noNaN: true }), (degrees, p) => {
        // Not normed: the share of a half is what counts. With t = √ν tan θ the density becomes cos^(ν−1) θ.
        const integral = (to: number): number => {
          const parts = 2_000;
          let sum = 0;
          for (let i = 0; i < parts; i++) sum += Math.cos(((i + 0.5) * to) / parts) ** (degrees - 1);
          return (sum * to) / parts;
        };
        const angle = Math.atan(studentQuantile(p, degrees) / Math.sqrt(degrees));
        expect(0.5 + (0.5 * integral(angle)) / integral(Math.PI / 2)).toBeCloseTo(p, 5);
      }),
      { numRuns: 30 },
    );
  });

  test('is symmetric', () => {
    expect(studentQuantile(0.5, 7)).toBe(0);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.double({ min: 0.51, max: 0.999, noNaN: true }), (degrees, p) => {
        expect(studentQuantile(1 - p, degrees) / studentQuantile(p, degrees)).toBeCloseTo(-1, 8);
      }),
    );
  });
});

describe('the interval of a mean', () => {
  test('of 1, 2, 3, 4, 5 is 3 ± 2.7764 · √(2.5 / 5)', () => {
    const { mean, low, high } = meanInterval([5, 3, 1, 2, 4], 0.95);
    expect(mean).toBe(3);
    expect(low).toBeCloseTo(3 - 1.963243, 6);
    expect(high).toBeCloseTo(3 + 1.963243, 6);
  });

  test('of one value is unbounded, and of equal values has no width', () => {
    expect(meanInterval([2], 0.95)).toEqual({ mean: 2, low: -Infinity, high: Infinity });
    expect(meanInterval([2, 2, 2], 0.95)).toEqual({ mean: 2, low: 2, high: 2 });
  });

  test.each([NaN, Infinity])('with %d is not a number', value => {
    expect(meanInterval([1, value, 2], 0.95)).toEqual({ mean: NaN, low: NaN, high: NaN });
  });

  test.each([
    [0.95, 2],
    [0.95, 8],
    [0.8, 5],
  ])('of %d holds the true mean that often, with %i values', (confidence, count) => {
    const random = uniformNumbers(11);
    const runs = 4_000;
    let held = 0;
    for (let run = 0; run < runs; run++) {
      const values = Array.from({ length: count }, () => 5 + 2 * normalNumber(random));
      const { low, high } = meanInterval(values, confidence);
      if (low <= 5 && high >= 5) held++;
    }
    // Three standard errors of a share in 4,000 runs.
    expect(Math.abs(held / runs - confidence)).toBeLessThan(3 * Math.sqrt((confidence * (1 - confidence)) / runs));
  });
});

describe('pairs', () => {
  const sample = (seed: number, fold: number, value: number) => ({ seed, fold, value });

  test('are found by seed and fold, in any order', () => {
    const a = [sample(1, 0, 10), sample(1, 1, 20), sample(2, 0, 30)];
    const b = [sample(2, 0, 1), sample(3, 0, 99), sample(1, 1, 2), sample(1, 0, 3)];
    expect(pairedDifferences(a, b)).toEqual([sample(1, 0, 7), sample(1, 1, 18), sample(2, 0, 29)]);
  });

  test('of one seed are one unit, however many folds they have', () => {
    const differences = [sample(1, 0, 1), sample(2, 0, 5), sample(1, 1, 3), sample(2, 1, 7)];
    expect(seedMeans(differences)).toEqual([2, 6]);
    // 4 ± 12.7062 · √(8 / 2), not 4 ± 3.1824 · √(6.667 / 4) as of four independent values.
    expect(meanInterval(seedMeans(differences), 0.95).high).toBeCloseTo(29.412409, 5);
  });

  test('of folds that share their noise hold the true mean as often as they say, by seeds only', () => {
    const random = uniformNumbers(12);
    const runs = 2_000;
    const held = { seeds: 0, folds: 0 };
    for (let run = 0; run < runs; run++) {
      const samples = [1, 2, 3, 4, 5, 6].flatMap(seed => {
        const shared = normalNumber(random);
        return [0, 1, 2, 3, 4].map(fold => sample(seed, fold, shared + 0.3 * normalNumber(random)));
      });
      const holds = (values: number[]): number => {
        const { low, high } = meanInterval(values, 0.95);
        return low <= 0 && high >= 0 ? 1 : 0;
      };
      held.seeds += holds(seedMeans(samples));
      held.folds += holds(samples.map(({ value }) => value));
    }
    expect(Math.abs(held.seeds / runs - 0.95)).toBeLessThan(0.015);
    expect(held.folds / runs).toBeLessThan(0.75);
  });
});

describe('the bootstrap', () => {
  const OPTIONS = { confidence: 0.95, resamples: 2_000, seed: 3 };
  const normal = (count: number, seed: number): number[] => {
    const random = uniformNumbers(seed);
    return Array.from({ length: count }, () => normalNumber(random));
  };

  test('gives the same for a seed, and otherwise not', () => {
    const values = normal(50, 1);
    expect(bootstrapInterval(values, OPTIONS)).toEqual(bootstrapInterval(values, OPTIONS));
    expect(bootstrapInterval(values, { ...OPTIONS, seed: 4 })).not.toEqual(bootstrapInterval(values, OPTIONS));
  });

  test('keeps the pairs: a difference that is the same for all examples has no width', () => {
    expect(bootstrapInterval(new Float32Array(40).fill(0.25), OPTIONS)).toEqual({ mean: 0.25, low: 0.25, high: 0.25 });
  });

  test('of a share has the percentiles of the binomial distribution', () => {
    // Of 100 draws with the probability 0.3, at most 21 come with 2.88 %, at most 20 with 1.65 %, so the 2.5th
    // percentile is 21. At most 39 come with 97.90 %, at most 38 with 96.60 %, so the 97.5th is 39.
    const values = Array.from({ length: 100 }, (_, i) => (i < 30 ? 1 : 0));
    const { mean, low, high } = bootstrapInterval(values, { ...OPTIONS, resamples: 20_000 });
    expect([mean, low, high].map(value => Math.round(100 * value))).toEqual([30, 21, 39]);
  });

  test('holds the true mean about as often as it says', () => {
    let held = 0;
    for (let run = 0; run < 300; run++) {
      const { low, high } = bootstrapInterval(normal(60, run), { ...OPTIONS, resamples: 300, seed: run });
      if (low <= 0 && high >= 0) held++;
    }
    expect(held / 300).toBeGreaterThan(0.9);
    expect(held / 300).toBeLessThan(0.98);
  });
});

describe('the verdict', () => {
  const between = (low: number, high: number): Interval => ({ mean: (low + high) / 2, low, high });

  test.each([
    ['passes', [between(-0.2, 0.1)]],
    ['passes', [between(0.5, 0.9)]],
    ['passes', [between(-0.29, -0.01)]],
    ['undecided', [between(-0.31, 0.5)]],
    ['undecided', [between(-0.3, 0.5)]],
    ['undecided', [between(-0.5, -0.3)]],
    ['fails', [between(-0.5, -0.31)]],
    ['undecided', [between(-Infinity, Infinity)]],
    ['undecided', [between(-0.1, 0.1), between(-0.4, 0.4)]],
    ['undecided', [between(-0.5, -0.4), between(-0.5, -0.2)]],
    ['undecided', [between(-0.5, -0.4), between(-0.1, 0.1)]],
    ['fails', [between(-0.5, -0.4), between(-0.8, -0.4)]],
  ])('is %s for the differences %j', (expected, differences) => {
    const mirrored = differences.map(({ low, high }) => between(-high, -low));
    expect(verdictOf(differences, { better: 'higher', worse: 0.3 })).toBe(expected);
    expect(verdictOf(mirrored, { better: 'lower', worse: 0.3 })).toBe(expected);
  });

  test('never gets better with a smaller margin, or with a wider interval', () => {
    const order = { fails: 0, undecided: 1, passes: 2 };
    const size = fc.double({ min: 0.01, max: 2, noNaN: true });
    fc.assert(
      fc.property(fc.double({ min: -2, max: 2, noNaN: true }), size, size, size, (middle, half, margin, more) => {
        const interval = between(middle - half, middle + half);
        const wider = between(middle - half - more, middle + half + more);
        const verdict = (one: Interval, worse: number): number => order[verdictOf([one], { better: 'higher', worse })];
        expect(verdict(interval, margin)).toBeLessThanOrEqual(verdict(interval, margin + more));
        expect(Math.abs(verdict(wider, margin) - 1)).toBeLessThanOrEqual(Math.abs(verdict(interval, margin) - 1));
      }),
    );
  });
});

import type { StepStatistics } from '../../src/core/exchange-steps';
import { normals } from './fixtures/seeded';
import { type Failure, largestError, RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('local-steps.js', ranks);
  // 30 and 4 elements, both aligned to 16 bytes.
  const denseBytesOf = (steps: number) => steps * Math.ceil((2 * (ranks - 1) * 4 * 36) / ranks);

  test.each(['sgd', 'momentum', 'Nesterov', 'adam'] as const)('%s within, an outer optimizer between', inner => {
    type Value = { exchanged: number[][]; local: number[][]; steps: number; exchanges: number; iterations: number };
    const values = valuesOf<Value>(`reference: ${inner}`);
    const outer = { rate: 0.7, momentum: 0.8, nesterov: inner !== 'sgd' };
    const { exchanged, local } = reference(ranks, inner, outer);
    values.forEach((value, rank) => {
      expect(value).toMatchObject({ steps: 11, exchanges: 2, iterations: 11 });
      expect(value.exchanged).toEqual(values[0]!.exchanged);
      expect(largestError(value.exchanged.flat(), exchanged)).toBeLessThan(1e-5);
      expect(largestError(value.local.flat(), local[rank]!)).toBeLessThan(1e-5);
    });
    if (ranks > 1) expect(values[1]!.local).not.toEqual(values[0]!.local);
  });

  test('within a round replicas differ, and that is known; synchronize ends it', () => {
    type Value = { within: Failure; steps: number; exchanges: number; denseBytes: number; later: number };
    for (const value of valuesOf<Value>('rounds')) {
      expect(value.within.code).toBe('ERR_INVALID_ARGUMENT');
      expect(value.within.message).toMatch(/'rounds\/0' is within a round of local steps.*synchronize\(\)/);
      expect(value).toMatchObject({ steps: 6, exchanges: 2, later: 3, denseBytes: denseBytesOf(6) });
    }
  });

  test('a gradient that is not finite is skipped by its rank, or told to all at the end of the round', () => {
    type Outcome = Failure & { isFinite: boolean; statistics: StepStatistics };
    const values = valuesOf<{ skip: Outcome; error: Outcome; warnings: string[] }>('not finite');
    const skipped = (step: number, share: string) =>
      `The gradient of 'not finite/skip/0' holds NaN or infinity, in step ${step} of rank ${ranks - 1}. So far ${share} skipped.`;
    values.forEach(({ skip, error, warnings }, rank) => {
      // The rank alone knows, and says so.
      expect(warnings).toEqual(rank === ranks - 1 ? [skipped(4, '1 of 5 steps was'), skipped(5, '2 of 6 steps were')] : []); // prettier-ignore
      expect(skip).toMatchObject({ isFinite: true, statistics: { steps: 6, exchanges: 2 } });
      expect(skip.code).toBeUndefined();
      expect(skip.statistics.skippedSteps).toBe(rank === ranks - 1 ? 2 : 0); // the second ends the round
      expect(error).toMatchObject({ code: 'ERR_NON_FINITE', isFinite: true });
      expect(error.message).toMatch(new RegExp(`holds NaN or infinity on rank ${ranks - 1}, in steps 3 to 5\\.`));
    });
  });

  test('a checkpoint within a round resumes bit for bit', () => {
    type Value = Record<'whole' | 'resumed' | 'again' | 'resumedAgain', string[]> & {
      refused: Failure;
      leaked: number;
    };
    const values = valuesOf<Value>('resume');
    for (const { whole, resumed, resumedAgain, refused, leaked } of values) {
      expect(resumed).toEqual(whole);
      expect(resumedAgain).toEqual(whole);
      expect(refused.code).toBe('ERR_CHECKPOINT');
      expect(refused.message).toMatch(/^The checkpoint was saved with local steps/);
      expect(leaked).toBe(0);
    }
    if (ranks > 1) expect(values[1]!.whole).not.toEqual(values[0]!.whole);
  });

  test('the steps of a round that were taken before a resume do not count', () => {
    for (const statistics of valuesOf<StepStatistics>('statistics of a resumed round')) {
      expect(statistics).toMatchObject({ steps: 3, exchanges: 1, denseBytes: denseBytesOf(3) });
    }
  });

  test('an earlier checkpoint ends the round', () => {
    for (const [expected, again] of valuesOf<string[][]>('an earlier checkpoint')) expect(again).toEqual(expected);
  });

  test('the weight decay of the update is that of a step with an exchange', () => {
    for (const [exchanged, local] of valuesOf<number[]>('decay')) {
      expect(exchanged).toBeCloseTo(0.9, 6);
      expect(local).toBeCloseTo(0.9, 6);
    }
  });

  test('model.fit ends alike, in an epoch that does not end with a round, too', () => {
    for (const value of valuesOf<object>('fit')) {
      // 7 steps an epoch: rounds end after 3, 6, 9, 12 and, with the training, 14; then after 17, 20 and 21.
      const isWithin = 'ERR_INVALID_ARGUMENT';
      expect(value).toEqual({ seen: [isWithin, isWithin, isWithin], steps: 21, exchanges: 8 });
    }
  });

  test('wrong options, and different ones', () => {
    for (const { refused, differing } of valuesOf<{ refused: Failure[]; differing: Failure }>('wrong options')) {
      expect(refused).toEqual([
        coded(/^localSteps is -1; it must be/),
        coded(/^localSteps is 1\.5; it must be/),
        coded(/^outer is for local steps/),
        coded(/^learningRateRule: 'linear' is for gradients/),
        coded(/^localClipNorm is for local steps/),
        coded(/^localClipNorm is 0; it must be/),
        coded(/^outer\.learningRate is 0/),
        coded(/^outer\.momentum is 1/),
        coded(/^outer\.nesterov is 1/),
        coded(/^outer has no option 'rate'/),
      ]);
      if (ranks > 1)
        expect(differing).toEqual(coded(/localSteps is 2 on rank 0, but 3 on rank 1/, 'ERR_MODEL_MISMATCH'));
    }
  });
});

/** The steps of all ranks in double precision, one number after the other. */
function reference(
  ranks: number,
  inner: 'sgd' | 'momentum' | 'Nesterov' | 'adam',
  outer: { rate: number; momentum: number; nesterov: boolean },
) {
  const sizes = [30, 4];
  const numbers = (seed: number) => sizes.flatMap((size, i) => Array.from(normals(seed + i, size)));
  const all = Array.from({ length: ranks }, () => ({ w: numbers(0), m: Array<number>(34).fill(0), v: Array<number>(34).fill(0) })); // prettier-ignore
  let start = numbers(0);
  const velocity = Array<number>(34).fill(0);
  const local = (step: number) =>
    all.forEach(({ w, m, v }, rank) => {
      const target = numbers(1000 * rank + 10 * step);
      const gradient = w.map((value, i) => 1.01 * value - target[i]!);
      const norm = Math.sqrt(gradient.reduce((sum, each) => sum + each * each, 0));
      for (let i = 0; i < w.length; i++) {
        const g = Math.min(1, 4 / norm) * gradient[i]!;
        if (inner === 'adam') {
          m[i] = 0.9 * m[i]! + 0.1 * g;
          v[i] = 0.999 * v[i]! + 0.001 * g * g;
          const [mean, square] = [m[i]! / (1 - 0.9 ** (step + 1)), v[i]! / (1 - 0.999 ** (step + 1))];
          w[i]! -= (0.05 * mean) / (Math.sqrt(square) + 1e-7);
        } else {
          m[i] = (inner === 'sgd' ? 0 : 0.9) * m[i]! + g;
          w[i]! -= 0.1 * (inner === 'Nesterov' ? g + 0.9 * m[i]! : m[i]!);
        }
      }
    });
  let exchanged: number[] = [];
  for (let step = 0; step < 11; step++) {
    local(step);
    if (step % 4 !== 3) continue;
    start = start.map((before, i) => {
      const change = all.reduce((sum, { w }) => sum + (before - w[i]!), 0) / ranks;
      velocity[i] = outer.momentum * velocity[i]! + change;
      return before - outer.rate * (outer.nesterov ? change + outer.momentum * velocity[i]! : velocity[i]!);
    });
    exchanged = start;
    for (const state of all) state.w = [...start];
  }
  return { exchanged, local: all.map(({ w }) => w) };
}

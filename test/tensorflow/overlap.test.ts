import { dgc } from '../../src/compression/dgc-options';
import { checkWrapOptions } from '../../src/tensorflow/wrap-options';
import type { StepStatistics } from '../../src/core/exchange-steps';
import { normals } from './fixtures/seeded';
import { type Failure, largestError, RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('overlap.js', ranks);

  test('each update is applied one step late, asleep and awake', () => {
    type Run = { seen: number[][]; unchanged: number[]; last: number[]; steps: number; exchanges: number; iterations: number[] }; // prettier-ignore
    for (const runs of valuesOf<Run[]>('reference')) {
      for (const { seen, unchanged, last, ...counts } of runs) {
        const expected = reference(ranks);
        [...seen, last].forEach((weights, i) => expect(largestError(weights, expected[i]!)).toBeLessThan(1e-5));
        expect(seen[0]).toEqual(Array.from(normals(1, 60)));
        expect(unchanged).toEqual(seen.at(-1));
        expect(counts).toEqual({ steps: 6, exchanges: 5, iterations: [5, 6] });
      }
      expect(runs[1]).toEqual(runs[0]);
    }
  });

  test('gradients that do not depend on the weights have the same updates', () => {
    for (const [momentum, late, adam, lateAdam] of valuesOf<string[]>('as without, one step late')) {
      expect([late, lateAdam]).toEqual([momentum, adam]);
    }
  });

  test('residuals follow the rate', () => {
    for (const [without, late] of valuesOf<object[]>('residuals while the rate changes')) expect(late).toEqual(without);
  });

  test('an error keeps its step, and is raised in the next on all ranks', () => {
    type Value = Record<'skip' | 'error', { errors: Failure[]; isFinite: boolean; statistics: StepStatistics }>;
    for (const { skip, error } of valuesOf<Value>('not finite')) {
      expect(skip).toMatchObject({ isFinite: true, statistics: { steps: 6, skippedSteps: 1, exchanges: 6 } });
      expect(error.isFinite).toBe(true);
      const raised = coded(RegExp(`holds NaN or infinity on rank ${ranks - 1}, in step 2\\.`), 'ERR_NON_FINITE');
      expect(error.errors).toEqual([{}, {}, {}, raised, {}, {}]);
    }
  });

  test('a checkpoint resumes bit for bit', () => {
    for (const { whole, resumed } of valuesOf<{ whole: string; resumed: string }>('resume')) {
      expect(resumed).toBe(whole);
    }
  });

  test('model.fit applies the last update, too', () => {
    for (const value of valuesOf('fit')) expect(value).toEqual({ steps: 4, exchanges: 4 });
  });

  test('wrong options are refused', () => {
    for (const refused of valuesOf('wrong options')) {
      expect(refused).toEqual([
        coded(/^overlap is 2; it must be 0 or 1/),
        coded(/^overlap is true; it must be 0 or 1/),
        coded(/^overlap: 1 is for gradients.*leave out localSteps/),
      ]);
    }
  });

  test('an optimizer may be disposed of while its exchange is under way', () => {
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    for (const value of valuesOf('disposed of while it is under way')) expect(value).toEqual(all);
  });
});

test('an elastic run has no overlap, and no sum of a host', () => {
  const compression = dgc({ perHost: true });
  expect(() => checkWrapOptions({ compression }, true)).toThrow(
    coded(/^dgc\(\{ perHost: true \}\) does not work in an elastic/),
  );
  expect(checkWrapOptions({ compression }, false).compression).toBe(compression);
  expect(() => checkWrapOptions({ overlap: 1 }, true)).toThrow(coded(/^overlap: 1 does not work in an elastic run/));
  expect(checkWrapOptions({ overlap: 0 }, true).overlap).toBe(0);
});

/** The weights after each step, and after the last update, in double precision. */
function reference(ranks: number): number[][] {
  let w = Array.from(normals(1, 60));
  let velocity = Array<number>(60).fill(0);
  let waiting: number[] | undefined;
  const seen: number[][] = [];
  const apply = () => {
    if (waiting === undefined) return;
    const gradient = waiting;
    velocity = velocity.map((before, i) => 0.9 * before + gradient[i]!);
    w = w.map((before, i) => before - 0.1 * velocity[i]!);
  };
  for (let step = 0; step < 6; step++) {
    // The gradient is that of the weights before the update that is still under way.
    const gradients = Array.from({ length: ranks }, (_, rank) => normals(100 * step + rank, 60));
    const mean = w.map((before, i) => gradients.reduce((sum, target) => sum + (before - target[i]!), 0) / ranks);
    apply();
    waiting = mean;
    seen.push(w);
  }
  apply();
  return [...seen, w];
}

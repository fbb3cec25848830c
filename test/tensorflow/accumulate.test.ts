import type { StepStatistics } from '../../src/core/exchange-steps';
import { type Failure, largestError, RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('accumulate.js', ranks);

  interface Compared {
    readonly small: number[];
    readonly large: number[];
    readonly exchanges: number;
  }

  test.each(['sgd, dense', 'momentum, dense', 'momentum, dgc', 'adam, dgc'])('an update is that of a batch four times as large: %s', name => {
    type Value = Compared & { isUnchanged: boolean; steps: number; iterations: number };
    for (const { small, large, ...others } of valuesOf<Value>(name)) {
      expect(others).toEqual({ isUnchanged: true, steps: 12, exchanges: 3, iterations: 3 });
      expect(largestError(small, large)).toBeLessThan(1e-6);
    }
  }); // prettier-ignore

  test('synchronize exchanges the rest, as the mean of its steps', () => {
    for (const { small, large, exchanges } of valuesOf<Compared>('the rest')) {
      expect(exchanges).toBe(2);
      expect(largestError(small, large)).toBeLessThan(1e-6);
    }
  });

  test('the exchange may travel while the next gradient is computed', () => {
    for (const { late, ordinary, exchanges } of valuesOf<Record<'late' | 'ordinary', number[]> & { exchanges: number }>('overlap')) {
      expect(exchanges).toBe(2);
      expect(late).toEqual(ordinary);
    }
  }); // prettier-ignore

  test('a gradient that is not finite spoils all steps of its exchange, on all ranks', () => {
    type Value = Record<'skip' | 'error', Failure & { isFinite: boolean; statistics: StepStatistics }>;
    for (const { skip, error } of valuesOf<Value>('not finite')) {
      expect(skip).toMatchObject({ isFinite: true, statistics: { steps: 9, exchanges: 3, skippedSteps: 3 } });
      expect(skip.code).toBeUndefined();
      expect(error).toMatchObject({ code: 'ERR_NON_FINITE', isFinite: true });
      expect(error.message).toMatch(new RegExp(`holds NaN or infinity on rank ${ranks - 1}, in steps 3 to 5\\.`));
    }
  });

  test('a checkpoint between two exchanges resumes bit for bit', () => {
    type Value = Record<'whole' | 'resumed' | 'resumedAgain' | 'ended' | 'resumedAndEnded', string[]> & {
      refused: Failure;
      leaked: number;
    };
    for (const { whole, resumed, resumedAgain, ended, resumedAndEnded, refused, leaked } of valuesOf<Value>('resume')) {
      expect(resumed).toEqual(whole);
      expect(resumedAgain).toEqual(whole);
      expect(resumedAndEnded).toEqual(ended);
      expect(refused.code).toBe('ERR_CHECKPOINT');
      expect(refused.message).toMatch(/^The checkpoint was saved while gradients were accumulated/);
      expect(leaked).toBe(0);
    }
  });

  test('model.fit needs no other line, and exchanges the rest at its end', () => {
    type Fit = { weights: number[]; exchanges: number };
    for (const { small, large, odd } of valuesOf<Record<'small' | 'large' | 'odd', Fit>>('fit')) {
      expect(small.exchanges).toBe(12);
      expect(large.exchanges).toBe(12);
      expect(odd.exchanges).toBe(10); // 48 steps: 9 × 5, and the rest
      expect(largestError(small.weights, large.weights)).toBeLessThan(1e-6);
    }
  });

  test('wrong options, and different ones, are told, and an update after them is right', () => {
    type Failures = { refused: Failure[] } & Record<'decay' | 'counts' | 'decays', Failure>;
    for (const value of valuesOf<Failures & Omit<Compared, 'exchanges'>>('wrong options')) {
      const { refused, decay, counts, decays, small, large } = value;
      expect(largestError(small, large)).toBeLessThan(1e-6);
      expect(refused).toEqual([
        coded(/^accumulate is 0; it must be/),
        coded(/^accumulate is 1\.5; it must be/),
        coded(/^accumulate is for gradients that are exchanged/),
        coded(/^weightDecay is 1; it must be a number, 0 or more, or a function/),
        coded(/^weightDecay is -1; it must be/),
      ]);
      expect(decay).toEqual(coded(/^weightDecay\('wrong decay\/0'\) is -1; it must be/));
      if (ranks === 1) continue;
      expect(counts).toEqual(coded(/accumulate is 2 on rank 0, but 3 on rank 1/, 'ERR_MODEL_MISMATCH'));
      expect(decays).toEqual(coded(/weightDecay is \[ 0, 0 \] on rank 0, but \[ 0, 1 \] on rank 1/, 'ERR_MODEL_MISMATCH'));
    }
  }); // prettier-ignore
});

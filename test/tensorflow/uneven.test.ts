import { type Failure, largestError, RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('uneven.js', ranks);

  test('ranks without a batch go on with empty steps, and an update is the mean over the others', () => {
    type Value = { weights: number[]; expected: number[]; steps: number; loss: number[] };
    const values = valuesOf<Value[]>('fitDataset');
    for (const each of values) {
      expect(each).toHaveLength(2); // without accumulation, and with it
      each.forEach(({ weights, expected, steps, loss }, i) => {
        expect(steps).toBe(2 * 5);
        expect(largestError(weights, expected)).toBeLessThan(1e-6);
        expect(loss).toEqual(values[0]![i]!.loss);
        expect(loss.every(Number.isFinite)).toBe(true);
      });
    }
  });

  test('so does model.fit, with an uneven shard', () => {
    const values = valuesOf<{ rows: number[]; steps: number }>('fit, and an uneven shard');
    expect(values.map(({ rows }) => rows.length)).toEqual([9, 8, 8].slice(0, ranks));
    const all = values.flatMap(({ rows }) => rows).sort((a, b) => a - b);
    expect(all).toEqual(Array.from({ length: 8 * ranks + 1 }, (_, row) => row));
    for (const { steps } of values) expect(steps).toBe(2 * 3);
  });

  test('a rank without rows takes empty steps only', () => {
    const values = valuesOf<{ rows: number; steps: number }>('a rank without rows');
    expect(values.map(({ rows }) => rows)).toEqual([1, 0, 0].slice(0, ranks));
    for (const { steps } of values) expect(steps).toBe(2);
  });

  test('reshuffled rows are taken once in an epoch each, in either form', () => {
    const values = valuesOf<{ taken: number[][]; rows: number; weights: [number[], number[]] }>('reshuffled rows');
    for (const { weights } of values) expect(weights[1]).toEqual(weights[0]);
    if (ranks > 1) expect(values.at(-1)!.taken).toHaveLength(2 * 2); // no row for the last of three steps of an epoch
    const all = values.flatMap(({ taken }) => taken.flat()).sort((a, b) => a - b);
    expect(all).toEqual(Array.from({ length: 2 * values[0]!.rows }, (_, i) => Math.floor(i / 2)));
  });

  test('the moving statistics of an epoch are those of the ranks that had a batch', () => {
    for (const { moving, expected } of valuesOf<{ moving: number[]; expected: number[] }>('moving statistics')) {
      expect(largestError(moving, expected)).toBeLessThan(1e-6);
    }
  });

  test('an uneven dataset has each element once', () => {
    const values = valuesOf<{ size: number; elements: number[] }>('an uneven dataset');
    const all = { 1: [[0, 1, 2, 3]], 2: [[0, 2], [1, 3]], 3: [[0, 3], [1], [2]] }[ranks]!; // prettier-ignore
    expect(values.map(({ elements }) => elements)).toEqual(all);
    expect(values.map(({ size }) => size)).toEqual(all.map(({ length }) => length));
  });

  test('with compression and accumulation, and nothing stays in memory', () => {
    for (const { exchanges, leaked } of valuesOf<{ exchanges: number; leaked: number }>('what was exchanged')) {
      expect(exchanges).toBe(10); // in each of two trainings, those of 10 steps
      expect(leaked).toBe(0);
    }
  });

  test('a checkpoint falls into an empty step, too', () => {
    for (const step of valuesOf<number>('checkpoint')) expect(step).toBe(9); // of the second epoch the fourth
  });

  test('without it, all are told', () => {
    const failures = valuesOf<Failure>('without join');
    if (ranks > 1) expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['ERR_COLLECTIVE_MISMATCH']));
  });

  test('wrong calls are told, and a training after them is right', () => {
    type Values = { failures: Failure[] } & Record<'weights' | 'expected', number[]>;
    for (const { failures, weights, expected } of valuesOf<Values>('wrong calls')) {
      expect(largestError(weights, expected)).toBeLessThan(1e-6);
      expect(failures).toEqual([
        coded(/^uneven is 'yes'; it must be 'error' or 'join'/),
        coded(/^uneven: 'join' is for gradients that are exchanged in every step/),
        coded(/leave out batchesPerEpoch/),
        coded(/^uneven: 'join' does not work with ring\.batchNormalization/),
        coded(/^uneven is 1; it must be true or false/),
        coded(/^uneven is 'yes'; it must be true or false/),
        coded(/^uneven: 'join' does not work in an elastic run/),
      ]);
    }
  });
});

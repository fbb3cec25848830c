import { runScenariosInRings } from './support';

/** By epoch, rank and batch: the rows. */
type Rows = number[][][][];

const ROWS = 34;
const BATCH = 4;

describe.each([1, 2, 3])('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('reshuffle.js', ranks, { rows: ROWS });

  /** Each row once an epoch, in another order each time, and the ranks take as many steps. */
  function expectEpochs(epochs: Rows): void {
    expect(epochs).toHaveLength(3);
    const orders = epochs.map(epoch => {
      const steps = Math.ceil(ROWS / (BATCH * ranks));
      expect(epoch.map(batches => batches.length)).toEqual(Array(ranks).fill(steps));
      const taken = Array.from({ length: steps }, (_, step) => epoch.flatMap(batches => batches[step]!)).flat();
      expect(new Set(taken).size).toBe(ROWS);
      expect(taken.length).toBeLessThan(ROWS + ranks); // so that the last step has as many on each rank
      return taken;
    });
    expect(new Set(orders.map(String)).size).toBe(3);
    const own = epochs.map(([batches]) => new Set(batches!.flat()));
    if (ranks > 1) expect([...own[0]!].some(row => !own[1]!.has(row))).toBe(true); // a rank does not keep its rows
  }

  test('each epoch of model.fit divides the rows anew', () => {
    for (const epochs of valuesOf<Rows>('fit')) expectEpochs(epochs);
  });

  test('the seed decides', () => {
    for (const [first, again, other] of valuesOf<string[]>('again')) {
      expect(again).toBe(first);
      expect(other).not.toBe(first);
    }
  });

  test('rows that the program reads are the same rows', () => {
    const [fit] = valuesOf<Rows>('fit');
    const [weights] = valuesOf<string[]>('again')[0]!;
    for (const value of valuesOf<{ seen: Rows; weights: string; size: number }>('rows that are read')) {
      expect(value).toEqual({ seen: fit, weights, size: Math.ceil(ROWS / (BATCH * ranks)) });
    }
  });

  test('the dataset may be mapped, and read ahead', () => {
    const [fit] = valuesOf<Rows>('fit');
    for (const epochs of valuesOf<Rows>('a dataset that is mapped, and read ahead')) expect(epochs).toEqual(fit);
  });

  test('in a loop each iteration is an epoch, or what setEpoch says', () => {
    const values = valuesOf<{ seen: Rows; resumed: number[][]; first: number[] }>('a loop');
    values.forEach(({ seen, resumed, first }, rank) => {
      expectEpochs(seen);
      expect(resumed).toEqual(seen[1]![rank]!.slice(1));
      expect(first).toEqual([0, 1, 2, 3].map(row => BATCH * rank + row));
    });
  });

  test('resumed within an epoch, model.fit ends with the weights of one that was not stopped', () => {
    type Value = { whole: string; resumed: string; at: { epoch: number; batch: number }; interrupted: string };
    for (const { whole, resumed, at, interrupted } of valuesOf<Value>('resume')) {
      expect(interrupted).toBe('stopped');
      expect(at.batch).toBeGreaterThan(0);
      expect(resumed).toBe(whole);
    }
  });

  test('wrong calls are told', () => {
    for (const messages of valuesOf<string[]>('wrong calls')) {
      expect(messages).toEqual([
        expect.stringMatching(/^reshuffle is 1\.5; it must be a seed/),
        expect.stringMatching(/^ring\.shard reshuffles tensors, not a dataset.*ring\.shardRows/),
        expect.stringMatching(/needs ring\.callbacks\(\)/),
        expect.stringMatching(/y of another call.*ring\.shard\(x, y, { reshuffle }\)/),
        expect.stringMatching(/^validationSplit does not work/),
        expect.stringMatching(/^rows is 0/),
        expect.stringMatching(/^ring\.shardRows takes the number of rows, and a function/),
        expect.stringMatching(/^batchSize is 0/),
        expect.stringMatching(/^ring\.shardRows has no option 'seed'/),
        expect.stringMatching(/^epoch is -1/),
      ]);
    }
  });
});

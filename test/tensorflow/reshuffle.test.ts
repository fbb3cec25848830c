import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isSlow } from '../support/cases';
import { coded } from '../support/coded';
import { type Failure, placesOfRings, RING_SIZES, runFixture, runScenariosInRings } from './support';

/** By epoch, rank and batch: the rows. */
type Rows = number[][][][];

const ROWS = 34;
const BATCH = 4;

/** Where rings of each size save within the first epoch, for the second launch. */
const saves = mkdtempSync(path.join(tmpdir(), 'gradring-reshuffle-'));
afterAll(() => rmSync(saves, { recursive: true, force: true }));

const INPUT = { rows: ROWS, saves };

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('reshuffle.js', ranks, INPUT);

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

  test('resumed within an epoch, model.fit ends with the weights of one that was not stopped, in either form', () => {
    type Value = Record<'form' | 'whole' | 'resumed' | 'interrupted', string> & { at: { batch: number } };
    for (const values of valuesOf<Value[]>('resume')) {
      expect(values.map(({ form }) => form)).toEqual(['tensors', 'rows']);
      for (const { whole, resumed, at, interrupted } of values) {
        expect(interrupted).toBe('stopped');
        expect(at.batch).toBeGreaterThan(0);
        expect(resumed).toBe(whole);
      }
    }
  });

  test('a row may be a file: a rank opens its own in each epoch, and no others', () => {
    const values = valuesOf<{ opened: string[]; seen: number[][] }>('a file for each batch');
    const steps = Math.ceil(7 / ranks);
    const all = Array.from({ length: 7 }, (_, i) => `batch-${i}.json`);
    for (const { opened, seen } of values) {
      expect(opened.map(name => seen.findIndex(([i]) => name === `batch-${i}.json`))).not.toContain(-1);
      expect([opened.length, seen.length]).toEqual([2 * steps, 2 * steps]);
    }
    for (const from of [0, steps]) {
      const inOrder = Array.from({ length: steps }, (_, i) => values.map(({ opened }) => opened[from + i]!)).flat();
      // What the last step lacks is taken twice; apart from that no two ranks open the same.
      expect(inOrder.slice(0, 7).sort()).toEqual(all);
    }
  });

  test('wrong calls are told, and a training after them ends with the same weights', () => {
    const [expected] = valuesOf<string[]>('again')[0]!;
    for (const { failures, weights } of valuesOf<{ failures: Failure[]; weights: string }>('wrong calls')) {
      expect(weights).toBe(expected);
      expect(failures).toEqual([
        coded(/^reshuffle is 1\.5; it must be a seed/),
        coded(/^ring\.shard reshuffles tensors, not a dataset.*ring\.shardRows/),
        coded(/needs ring\.callbacks\(\)/),
        coded(/y of another call.*ring\.shard\(x, y, { reshuffle }\)/),
        coded(/^validationSplit does not work/),
        coded(/^rows is 0/),
        coded(/^ring\.shardRows takes the number of rows, and a function/),
        coded(/^batchSize is 0/),
        coded(/^ring\.shardRows has no option 'seed'/),
        coded(/^epoch is -1/),
      ]);
    }
  });
});

describe('resumed within an epoch in a ring of another size', () => {
  /** By the size of a ring, the rings whose saves it resumes. */
  const RESUMED: Record<number, number[]> = isSlow ? { 1: [3], 2: [1, 3], 3: [1] } : { 1: [2] };
  type Value = { at: { epoch: number; batch: number }; before: number[]; rest: number[] };
  type Resumed = Record<number, Record<number, Failure & { value?: Value[] }>>;

  runScenariosInRings('reshuffle.js', RING_SIZES[0]!, INPUT); // they save
  let byRank: readonly Resumed[];
  beforeAll(async () => {
    const { ranks, ports } = await placesOfRings(Object.keys(RESUMED).map(Number));
    byRank = await runFixture<Resumed>('reshuffle.js', { ranks, input: { ...INPUT, ports, resumed: RESUMED } });
  });

  const pairs = Object.entries(RESUMED).flatMap(([to, all]) => all.map(from => ({ from, to: Number(to) })));
  test.each(pairs)('$from to $to: model.fit takes the rows that are left', ({ from, to }) => {
    for (const outcomes of byRank.slice(0, to)) {
      const { value: values, ...failure } = outcomes[to]![from]!;
      expect(failure).toEqual({});
      expect(values).toHaveLength(2);
      for (const { at, before, rest } of values!) {
        expect(at).toMatchObject({ epoch: 0, batch: 2 });
        expect(before).toHaveLength(2 * BATCH * from);
        expect(new Set([...before, ...rest]).size).toBe(ROWS);
        expect(rest.length).toBeLessThan(ROWS - before.length + to); // the last step has as many on each rank
      }
    }
  });
});

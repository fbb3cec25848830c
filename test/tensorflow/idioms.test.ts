import { runFixture } from './support';

interface Seen {
  readonly seen: number[];
  readonly history: number[];
}

interface Saved {
  readonly optimizer: [className: string, learningRate: number];
  /** Of the loaded optimizer, and of the wrapped one. */
  readonly iterations: readonly number[];
  readonly samePredictions: boolean;
  readonly momenta: number[][];
  readonly weights: number[][];
  readonly trainsOn: boolean;
}

interface Idioms {
  readonly callbacks: Record<string, Seen & { code?: string; message?: string }>;
  readonly stoppedAfter: number;
  readonly withoutRing: number;
  readonly warnings: Record<string, string[]>;
  readonly saved: Record<string, Saved>;
  readonly split: { all: string[]; train: string[]; validation: string[]; labels: number[] };
}

let ranks: readonly [Idioms, Idioms];
beforeAll(async () => {
  ranks = (await runFixture<Idioms>('idioms.js', { ranks: 2 })) as [Idioms, Idioms];
}, 120_000);

describe('callbacks of the user', () => {
  test.each(['beside, after', 'beside, before', 'instances beside', 'also', 'the only one'])(
    '%s: are called with the averages of all ranks',
    idiom => {
      const [first, second] = ranks.map(({ callbacks }) => callbacks[idiom]!);
      expect(first!.history).toHaveLength(2);
      expect(second!.history).toEqual(first!.history);
      if (idiom === 'the only one') return; // that is the ring's own
      expect(first!.seen).toEqual(first!.history);
      expect(second!.seen).toEqual(first!.history);
    },
  );

  test.each([
    ['twice', /was given ring\.callbacks\(\) twice/],
    ['none', /was given undefined as a callback/],
  ])('%s is a coded error', (idiom, words) => {
    for (const { callbacks } of ranks) {
      expect(callbacks[idiom]).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(words) });
    }
  });

  test('earlyStopping before the ring’s callbacks stops all ranks after the same epoch', () => {
    expect(ranks.map(({ stoppedAfter }) => stoppedAfter)).toEqual([2, 2]);
  });

  test('of trainings without the ring are as ever', () => {
    expect(ranks.map(({ withoutRing }) => withoutRing)).toEqual([3, 3]);
  });
});

describe('data that the ranks have in another order', () => {
  test.each(['fit', 'custom loop', 'dataset', 'split'])('%s: rank 0 warns, once', name => {
    const [first, second] = ranks;
    expect(first.warnings[name]).toEqual([
      expect.stringMatching(
        /^Rank 1 gave other data to ring\.shard or ring\.shardRows than rank 0.*ring\.split.*check: false/,
      ),
    ]);
    expect(second.warnings[name]).toEqual([]);
  });

  test.each(['same data', 'check: false', 'custom loop, same data', 'dataset, same data', 'dataset, check: false'])(
    '%s: no warning',
    name => {
      for (const { warnings } of ranks) expect(warnings[name]).toEqual([]);
    },
  );
});

describe('model.save with includeOptimizer', () => {
  test.each([
    ['momentum', 'Momentum'],
    ['momentum, compressed', 'Momentum'],
    ['sgd', 'SGD'],
    ['adam', 'Adam'],
  ])('%s: the file loads without a ring, and trains on', (name, className) => {
    for (const { saved } of ranks) {
      const { optimizer, iterations, samePredictions, momenta, weights, trainsOn } = saved[name]!;
      expect(optimizer).toEqual([className, expect.closeTo(0.01)]);
      expect({ iterations, samePredictions, trainsOn }).toEqual({
        iterations: [4, 4],
        samePredictions: true,
        trainsOn: true,
      });
      if (className === 'Momentum') expect(weights).toEqual(momenta);
      expect(weights.length).toBe({ Momentum: 4, SGD: 0, Adam: 8 }[className]);
      expect(weights.flat().every(Number.isFinite)).toBe(true);
    }
  });
});

test('ring.split gives each row to one rank’s training, or to the validation of all', () => {
  const [first, second] = ranks.map(({ split }) => split);
  expect(first!.validation).toEqual(second!.validation);
  expect(first!.validation).toHaveLength(4);
  expect(first!.labels).toEqual([4, 1]);
  expect([...first!.train, ...second!.train, ...first!.validation].sort()).toEqual([...first!.all].sort());
  expect([...first!.train, ...first!.validation]).not.toEqual(first!.all.slice(0, 10));
});

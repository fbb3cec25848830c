import { type Failure, largestError, RING_SIZES, runScenariosInRings } from './support';

/** What one process and the ring have found. */
interface Found {
  readonly together: number[];
  readonly alone: number[];
}

const TOLERANCE = 1e-6;

const ROWS = 53;

/** The batches that ranks have computed, each a list of rows: together each once, and no rank more than its share. */
function expectDivided(byRank: readonly number[][][], batchSize: number, count = Math.ceil(ROWS / batchSize)): void {
  const starts = Array.from({ length: count }, (_, i) => i * batchSize);
  const all = starts.map(start => Array.from({ length: Math.min(batchSize, ROWS - start) }, (_, i) => start + i));
  expect(byRank.flat().sort(([a], [b]) => a! - b!)).toEqual(all);
  const most = Math.ceil(count / byRank.length);
  for (const own of byRank) expect(own.length).toBeLessThanOrEqual(most);
}

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('evaluate.js', ranks);

  test('a model is evaluated on each row once, and predicts all rows in their order', () => {
    type Computed = { batchSize: number; computed: number[][][] };
    type Of = Found & Computed & { predictions: [number[], number[]]; expected: [number[], number[]]; onRoot?: number[] }; // prettier-ignore
    const values = valuesOf<{ found: Of[]; leaked: number }>('tensors');
    values[0]!.found.forEach(({ batchSize, computed }, i) => {
      for (const call of computed.keys()) expectDivided(values.map(({ found }) => found[i]!.computed[call]!), batchSize); // prettier-ignore
    });
    for (const [rank, { found, leaked }] of values.entries()) {
      const last = found.at(-1)!;
      expect(last.onRoot).toEqual(rank === ranks - 1 ? last.predictions[1] : undefined);
      for (const { together, alone, predictions, expected } of found) {
        expect(together).toHaveLength(3);
        expect(largestError(together, alone)).toBeLessThan(TOLERANCE);
        expect(predictions[0]).toEqual([53, 2]);
        expect(predictions[0]).toEqual(expected[0]);
        expect(largestError(predictions[1], expected[1])).toBeLessThan(TOLERANCE);
      }
      // The last metric depends on the batches, as it should.
      expect(new Set(found.map(({ alone }) => alone[2])).size).toBeGreaterThan(1);
      expect(leaked).toBe(0);
    }
  });

  test('the same holds for datasets', () => {
    type Evaluated = Found & { batches: number; computed: number[][] };
    type Predicted = Record<'predicted' | 'ofRows' | 'expected', number[]> & { ofDataset: number[][]; onRoot?: number[] }; // prettier-ignore
    const values = valuesOf<Predicted & { found: Evaluated[] }>('datasets');
    values[0]!.found.forEach(({ batches }, i) => {
      expectDivided(values.map(({ found }) => found[i]!.computed), 10, Math.min(batches, 6)); // prettier-ignore
    });
    expectDivided(values.map(({ ofDataset }) => ofDataset), 10); // prettier-ignore
    for (const [rank, { found, predicted, ofRows, onRoot, expected }] of values.entries()) {
      expect(onRoot).toEqual(rank === 0 ? predicted : undefined);
      for (const { together, alone } of found) expect(largestError(together, alone)).toBeLessThan(TOLERANCE);
      expect(largestError(predicted, expected)).toBeLessThan(TOLERANCE);
      expect(largestError(ofRows, expected)).toBeLessThan(TOLERANCE);
    }
  });

  test('the same holds for several inputs and outputs, by name and in order', () => {
    type Values = { evaluations: number[][]; predictions: number[][][] };
    for (const { evaluations, predictions } of valuesOf<Values>('several inputs and outputs')) {
      const [alone, ...together] = evaluations;
      for (const each of together) expect(largestError(each, alone!)).toBeLessThan(TOLERANCE);
      const [found, expected] = predictions;
      found!.forEach((values, i) => expect(largestError(values, expected![i]!)).toBeLessThan(TOLERANCE));
    }
  });

  test('predictions may be whole numbers and truths', () => {
    type Output = [type: string, shape: number[], values: number[]];
    for (const { predicted, expected } of valuesOf<{ predicted: Output[][]; expected: Output[] }>(
      'outputs that are no floats',
    )) {
      expect(expected.map(([type, shape]) => [type, shape])).toEqual([['int32', [ROWS]], ['bool', [ROWS, 4]]]); // prettier-ignore
      expect(predicted).toEqual([expected, expected]);
    }
  });

  test('the validation of model.fit is that of one process, with the averaged statistics of batch norm', () => {
    type History = Record<string, number[]>;
    interface Values {
      readonly history: History;
      readonly ofDataset: History;
      readonly afterFit: number[];
      readonly afterFitDataset: number[];
      readonly steps: number;
      readonly leaked: number;
      readonly seen: Record<string, number>[];
      readonly validated: number[][][];
      readonly names: string[];
      readonly chosen: Found[];
    }
    const all = valuesOf<Values>('validation');
    // Two epochs with tensors, then two with a dataset.
    for (const epoch of [0, 1, 2, 3]) expectDivided(all.map(({ validated }) => validated[epoch]!), epoch < 2 ? 8 : 10); // prettier-ignore
    for (const values of all) {
      const { history, ofDataset, afterFit, afterFitDataset, steps, leaked, seen, names, chosen } = values;
      const last = (of: History) => ['val_loss', 'val_acc', 'val_largest'].map(name => of[name]!.at(-1)!);
      expect(largestError(last(history), afterFit)).toBeLessThan(TOLERANCE);
      expect(largestError(last(ofDataset), afterFitDataset)).toBeLessThan(TOLERANCE);
      expect(history['val_loss']).toHaveLength(2);
      expect(seen.slice(0, 2).map(logs => logs['val_loss'])).toEqual(history['val_loss']);
      expect(steps).toBe(2 * Math.ceil(Math.ceil(53 / ranks) / 8));
      expect(leaked).toBe(0);
      expect(names).toEqual(['loss', 'acc', 'largest']);
      expect(chosen).toHaveLength(3);
      for (const { together, alone } of chosen) expect(largestError(together, alone)).toBeLessThan(TOLERANCE);
    }
  });

  test('ranks that validate on different rows have the mean over all of them', () => {
    const all = valuesOf<{ found: number; own: number; rows: number }>('validation on shards');
    const mean = all.reduce((sum, { own, rows }) => sum + own * rows, 0) / all.reduce((sum, { rows }) => sum + rows, 0);
    for (const { found } of all) expect(found).toBeCloseTo(mean, 6);
  });

  test('mistakes are told before anything is computed, and the ring evaluates as before', () => {
    type Values = { messages: Failure[]; unfit: string; steps: number; sharded: Failure; after: Found };
    for (const { messages, unfit, steps, sharded, after } of valuesOf<Values>('mistakes')) {
      expect(messages.map(({ code }) => code)).toEqual(messages.map(() => 'ERR_INVALID_ARGUMENT'));
      expect(messages.map(({ message }) => message)).toEqual([
        'ring.evaluate takes x and y, or a dataset of { xs, ys }.',
        'ring.evaluate takes a model first, not {}.',
        "ring.evaluate has no option 'batchsize'. Did you mean batchSize? Its options are batchSize, batches.",
        'batchSize is 0; it must be a whole number of at least 1.',
        'ring.evaluate: batches is for a dataset.',
        'ring.evaluate: batchSize is for tensors. The elements of a dataset are its batches.',
        'ring.evaluate takes tensors with the same number of rows; these have 53, 5.',
        'ring.evaluate was given a dataset without elements.',
        expect.stringContaining('ring.predict takes a dataset, or tensors'),
        `root is ${ranks}; it must be a rank, 0 … ${ranks - 1}.`,
        expect.stringContaining("ring.evaluate has no option 'root'"),
      ]);
      expect(unfit).toMatch(/expected a batch of elements where each example has shape \[2\]/);
      expect(steps).toBe(0);
      expect(largestError(after.together, after.alone)).toBeLessThan(TOLERANCE);
      if (ranks === 1) continue;
      expect(sharded.code).toBe('ERR_COLLECTIVE_MISMATCH');
      expect(sharded.message).toMatch(/^Rank 1 gave other data to ring.evaluate than rank 0\. .* not a shard of it/);
    }
  });
});

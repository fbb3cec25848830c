import type { Communicator } from '../../src/communicator/communicator';
import { syncBatchNormalization } from '../../src/tensorflow/sync-batch-norm';
import { largestError, RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('sync-batch-norm.js', ranks);

  test.each(['dense', 'convolution', 'channels first', 'without scale and center'])(
    'a training is that of one process with the batches of all ranks: %s',
    kind => {
      type Value = { together: number[]; alone: number[]; predicted: [number[], number[]] };
      for (const { together, alone, predicted } of valuesOf<Value>(kind)) {
        expect(largestError(together, alone)).toBeLessThan(1e-5);
        expect(largestError(...predicted)).toBeLessThan(1e-5);
      }
    },
  );

  test('rows have the same weight, however many a rank has', () => {
    const all = Array.from({ length: ranks }, (_, rank) => Array.from({ length: 1 + rank }, (_, i) => 10 * rank + i)).flat();
    const mean = all.reduce((sum, each) => sum + each) / all.length;
    const variance = all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / all.length;
    for (const statistics of valuesOf<number[]>('other batch sizes')) {
      expect(largestError(statistics, [mean, variance])).toBeLessThan(1e-6);
    }
  }); // prettier-ignore

  test('nothing stays in memory', () => {
    expect(valuesOf('memory')).toEqual(Array(ranks).fill(0));
  });

  test('a model is saved as with the ordinary layer', () => {
    for (const { classes, predicted } of valuesOf<{ classes: string[]; predicted: [number[], number[]] }>('saved')) {
      expect(classes).toContain('BatchNormalization');
      expect(predicted[1]).toEqual(predicted[0]);
    }
  });
});

test('an option that the layer does not have is an error', () => {
  const wrong = { epsilom: 1e-3 } as object;
  expect(() => syncBatchNormalization({ isElastic: false } as Communicator, wrong)).toThrow(
    coded(/Did you mean epsilon/),
  );
});

test('an elastic run refuses it', () => {
  expect(() => syncBatchNormalization({ isElastic: true } as Communicator, {})).toThrow(coded(/elastic run/));
});

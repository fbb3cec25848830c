import { RING_SIZES, runScenariosInRings } from './support';
import { coded } from '../support/coded';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('best.js', ranks);

  test('the checkpoint of the best epoch is kept beside the newest ones, also by a training that was resumed', () => {
    for (const value of valuesOf('best')) {
      expect(value).toEqual({
        ...{ saves: [[5, 6], [4]], epoch: 4, isRestored: true, at: 6 },
        onlyBest: [[4], [4], [8]], // before the seventh, eighth and ninth epoch
      });
    }
  });

  test('more is better if that is said, and NaN is never better', () => {
    for (const value of valuesOf('more is better')) expect(value).toEqual([[3], [1]]);
  });

  test('early stopping goes on counting when a training is resumed', () => {
    // It waits in the third, fourth and fifth epoch.
    const afterFour = { epoch: 4, batch: 0, epochs: 1 };
    const withinFourth = { epoch: 3, batch: 1, epochs: 2 };
    for (const value of valuesOf('early stopping')) expect(value).toEqual([afterFour, afterFour, withinFourth]);
  });

  test('wrong metrics and options are told', () => {
    for (const value of valuesOf('a metric that is not there')) {
      const words = "best is 'val_los', but the metrics of an epoch are 'loss', 'score'.";
      expect(value).toEqual(['ERR_INVALID_ARGUMENT', words]);
    }
    for (const refused of valuesOf('wrong options')) {
      expect(refused).toEqual([
        coded(/^best\.mode is 'less'; it must be min or max\.$/),
        coded(/^best\.metric is 3; it must be a name\.$/),
        coded(/^best\.mode is 'undefined'; it must be min or max\.$/),
        coded(/^checkpoint\.resume has no option 'bset'\. Did you mean best\? Its options are best\.$/),
      ]);
    }
  });
});

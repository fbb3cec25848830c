import { algorithmFor } from '../../collectives/dense-ring';
import type { CollectiveBenchmark } from './collective-benchmark';
import { asOf, countWrongElements, fillExact, reductionOf } from './exact-values';

export const reduce: CollectiveBenchmark = {
  name: 'reduce',
  describe: 'Time the reduction to one rank',
  sizeMeans: 'of the array on each rank',
  options: ['sizes', 'type', 'op', 'root'],
  busFactor: () => 1,
  algorithmFor,
  prepare: (communicator, measured) => {
    const { type, elements, op, root } = measured;
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const expected = reductionOf(measured, worldSize);
    return {
      fill: iteration => fillExact(array, rank, iteration, measured),
      run: () => void communicator.reduceSync(array, { op, root, ...asOf(measured) }),
      countWrong: iteration => (rank === root ? countWrongElements(array, expected, iteration, measured) : 0),
      release: () => communicator.free(array),
    };
  },
};

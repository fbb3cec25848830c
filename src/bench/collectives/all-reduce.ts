import { algorithmFor } from '../../collectives/dense-ring';
import type { CollectiveBenchmark } from './collective-benchmark';
import { asOf, countWrongElements, fillExact, reductionOf } from './exact-values';

export const allReduce: CollectiveBenchmark = {
  name: 'all-reduce',
  describe: 'Time the ring all-reduce',
  sizeMeans: 'of the array on each rank',
  options: ['sizes', 'type', 'op'],
  busFactor: ranks => (2 * (ranks - 1)) / ranks,
  algorithmFor,
  prepare: (communicator, measured) => {
    const { type, elements, op } = measured;
    const array = communicator.allocate(type, elements);
    const expected = reductionOf(measured, communicator.worldSize);
    return {
      fill: iteration => fillExact(array, communicator.rank, iteration, measured),
      run: () => void communicator.allReduceSync(array, { op, ...asOf(measured) }),
      countWrong: iteration => countWrongElements(array, expected, iteration, measured),
      release: () => communicator.free(array),
    };
  },
};

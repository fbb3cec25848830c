import { algorithmFor } from '../../collectives/dense-ring';
import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, reductionOf } from './exact-values';

export const allReduce: CollectiveBenchmark = {
  name: 'all-reduce',
  describe: 'Time the ring all-reduce',
  sizeMeans: 'of the array on each rank',
  options: ['sizes', 'type', 'op'],
  busFactor: ranks => (2 * (ranks - 1)) / ranks,
  algorithmFor,
  prepare: (communicator, { type, elements, op }) => {
    const array = communicator.allocate(type, elements);
    const expected = reductionOf(op, communicator.worldSize);
    return {
      fill: iteration => fillExact(array, communicator.rank, iteration),
      run: () => void communicator.allReduceSync(array, { op }),
      countWrong: iteration => countWrongElements(array, expected, iteration),
      release: () => communicator.free(array),
    };
  },
};

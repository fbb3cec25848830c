import type { NumericArray } from '../../communicator/communicator';
import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const allGather: CollectiveBenchmark = {
  name: 'all-gather',
  describe: 'Time the ring all-gather',
  sizeMeans: 'of the array that each rank has at the end; each of N ranks gives an Nth of it',
  options: ['sizes', 'type'],
  elementsFor: (elements, ranks) => ranks * Math.ceil(elements / ranks),
  busFactor: ranks => (ranks - 1) / ranks,
  prepare: (communicator, measured) => {
    const { type, elements } = measured;
    const array = communicator.allocate(type, elements / communicator.worldSize);
    let gathered: readonly NumericArray[] = [];
    return {
      fill: iteration => fillExact(array, communicator.rank, iteration, measured),
      run: () => void (gathered = communicator.allGatherSync(array)),
      countWrong: iteration =>
        gathered.reduce(
          (sum, of, rank) => sum + countWrongElements(of, inputOf(rank, measured), iteration, measured),
          0,
        ),
      release: () => communicator.free(array),
    };
  },
};

import type { NumericArray } from '../../communicator/communicator';
import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const allToAll: CollectiveBenchmark = {
  name: 'all-to-all',
  describe: 'Time the exchange in which each rank has a part for every rank',
  sizeMeans: 'of the array on each rank, of which each of N ranks gets an Nth',
  options: ['sizes', 'type'],
  elementsFor: (elements, ranks) => ranks * Math.ceil(elements / ranks),
  busFactor: ranks => (ranks - 1) / ranks,
  prepare: (communicator, measured) => {
    const { type, elements } = measured;
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const count = elements / worldSize;
    let received: NumericArray = array;
    const wrongFrom = (from: number, iteration: number) => {
      const part = received.subarray(from * count, (from + 1) * count);
      return countWrongElements(part, inputOf(from, measured), iteration, measured, rank * count);
    };
    return {
      fill: iteration => fillExact(array, rank, iteration, measured),
      run: () => void (received = communicator.allToAllSync(array)),
      countWrong: iteration =>
        Array.from({ length: worldSize }, (_, from) => wrongFrom(from, iteration)).reduce((sum, wrong) => sum + wrong),
      release: () => communicator.free(array),
    };
  },
};

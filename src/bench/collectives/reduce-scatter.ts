import type { NumericArray } from '../../communicator/communicator';
import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, reductionOf } from './exact-values';

export const reduceScatter: CollectiveBenchmark = {
  name: 'reduce-scatter',
  describe: 'Time the ring reduce-scatter',
  sizeMeans: 'of the array on each rank; each of N ranks keeps an Nth of the result',
  options: ['sizes', 'type', 'op'],
  busFactor: ranks => (ranks - 1) / ranks,
  prepare: (communicator, { type, elements, op }) => {
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const expected = reductionOf(op, worldSize);
    const first = Math.floor((rank * elements) / worldSize);
    let chunk: NumericArray;
    return {
      fill: iteration => fillExact(array, rank, iteration),
      run: () => void (chunk = communicator.reduceScatterSync(array, { op })),
      countWrong: iteration => countWrongElements(chunk, expected, iteration, first),
      release: () => communicator.free(array),
    };
  },
};

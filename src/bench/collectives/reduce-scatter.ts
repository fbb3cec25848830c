import type { NumericArray } from '../../communicator/communicator';
import type { CollectiveBenchmark } from './collective-benchmark';
import { asOf, countWrongElements, fillExact, reductionOf } from './exact-values';

export const reduceScatter: CollectiveBenchmark = {
  name: 'reduce-scatter',
  describe: 'Time the ring reduce-scatter',
  sizeMeans: 'of the array on each rank; each of N ranks keeps an Nth of the result',
  options: ['sizes', 'type', 'op'],
  busFactor: ranks => (ranks - 1) / ranks,
  prepare: (communicator, measured) => {
    const { type, elements, op } = measured;
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const expected = reductionOf(measured, worldSize);
    const first = Math.floor((rank * elements) / worldSize);
    let chunk: NumericArray;
    return {
      fill: iteration => fillExact(array, rank, iteration, measured),
      run: () => void (chunk = communicator.reduceScatterSync(array, { op, ...asOf(measured) })),
      countWrong: iteration => countWrongElements(chunk, expected, iteration, measured, first),
      release: () => communicator.free(array),
    };
  },
};

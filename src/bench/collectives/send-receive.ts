import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const sendReceive: CollectiveBenchmark = {
  name: 'send-recv',
  describe: 'Time sending to the right neighbour while receiving from the left one',
  sizeMeans: 'of the array that each rank sends',
  options: ['sizes', 'type'],
  busFactor: () => 1,
  prepare: (communicator, measured) => {
    const { type, elements } = measured;
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const left = inputOf((rank + worldSize - 1) % worldSize, measured);
    return {
      fill: iteration => fillExact(array, rank, iteration, measured),
      run: () => void communicator.sendReceiveSync(array),
      countWrong: iteration => countWrongElements(array, left, iteration, measured),
      release: () => communicator.free(array),
    };
  },
};

import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const sendReceive: CollectiveBenchmark = {
  name: 'send-recv',
  describe: 'Time sending to the right neighbour while receiving from the left one',
  sizeMeans: 'of the array that each rank sends',
  options: ['sizes', 'type'],
  busFactor: () => 1,
  prepare: (communicator, { type, elements }) => {
    const { rank, worldSize } = communicator;
    const array = communicator.allocate(type, elements);
    const left = inputOf((rank + worldSize - 1) % worldSize);
    return {
      fill: iteration => fillExact(array, rank, iteration),
      run: () => void communicator.sendReceiveSync(array),
      countWrong: iteration => countWrongElements(array, left, iteration),
      release: () => communicator.free(array),
    };
  },
};

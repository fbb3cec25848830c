import type { NumericArray } from '../../communicator/communicator';
import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const send: CollectiveBenchmark = {
  name: 'send',
  describe: 'Time a message from rank 0 to the rank that is farthest away, half the ring, and back',
  sizeMeans: 'of the array that rank 0 sends',
  options: ['sizes', 'type'],
  busFactor: () => 2,
  prepare: (communicator, measured) => {
    const { type, elements } = measured;
    const { rank, worldSize } = communicator;
    const farthest = Math.floor(worldSize / 2);
    const array = communicator.allocate(type, elements);
    let received: NumericArray = array;
    return {
      fill: iteration => fillExact(array, rank, iteration, measured),
      run: () => {
        if (rank === farthest && rank !== 0) communicator.sendSync(communicator.receiveSync(0), 0);
        else if (rank === 0 && worldSize > 1) {
          communicator.sendSync(array, farthest);
          received = communicator.receiveSync(farthest);
        }
      },
      countWrong: iteration =>
        rank === 0 ? countWrongElements(received, inputOf(0, measured), iteration, measured) : 0,
      release: () => communicator.free(array),
    };
  },
};

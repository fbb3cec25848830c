import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const broadcast: CollectiveBenchmark = {
  name: 'broadcast',
  describe: 'Time the broadcast along the ring',
  sizeMeans: "of the root's array",
  options: ['sizes', 'type', 'root'],
  busFactor: () => 1,
  prepare: (communicator, measured) => {
    const { type, elements, root } = measured;
    const array = communicator.allocate(type, elements);
    return {
      fill: iteration => fillExact(array, communicator.rank, iteration, measured),
      run: () => void communicator.broadcastSync(array, { root }),
      countWrong: iteration => countWrongElements(array, inputOf(root, measured), iteration, measured),
      release: () => communicator.free(array),
    };
  },
};

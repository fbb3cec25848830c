import type { CollectiveBenchmark } from './collective-benchmark';
import { countWrongElements, fillExact, inputOf } from './exact-values';

export const scatter: CollectiveBenchmark = {
  name: 'scatter',
  describe: 'Time dividing an array of one rank between all',
  sizeMeans: "of the root's array; each of N ranks gets an Nth of it",
  options: ['sizes', 'type', 'root'],
  elementsFor: (elements, ranks) => ranks * Math.ceil(elements / ranks),
  busFactor: ranks => (ranks - 1) / ranks,
  prepare: (communicator, measured) => {
    const { type, elements, root } = measured;
    const { rank, worldSize } = communicator;
    const part = communicator.allocate(type, elements / worldSize);
    const from = communicator.allocate(type, elements);
    return {
      fill: iteration => fillExact(from, rank, iteration, measured),
      run: () => void communicator.scatterSync(part, { root, from }),
      countWrong: iteration =>
        countWrongElements(part, inputOf(root, measured), iteration, measured, rank * part.length),
      release: () => [part, from].forEach(array => communicator.free(array)),
    };
  },
};

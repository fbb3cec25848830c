import type { CollectiveBenchmark } from './collective-benchmark';

export const barrier: CollectiveBenchmark = {
  name: 'barrier',
  describe: 'Time the barrier',
  options: [],
  busFactor: () => 0,
  prepare: communicator => ({
    fill: () => undefined,
    run: () => communicator.barrierSync(),
    countWrong: () => 0, // there is no data
    release: () => undefined,
  }),
};

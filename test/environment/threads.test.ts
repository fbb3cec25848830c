import { defaultThreads } from '../../src/environment/threads';

test.each([
  [1, 1, 1],
  [1, 2, 1],
  [1, 8, 7],
  [4, 8, 1],
  [4, 64, 15],
  [8, 4, 1],
  [1, 256, 64],
])('%i ranks on %i cores: %i threads each', (ranks, cores, threads) => {
  expect(defaultThreads(ranks, cores)).toBe(threads);
});

import { garbageOptions, threadVariables } from '../../src/launcher/host-resources';

test.each([
  [4, 16, '4'],
  [3, 16, '5'],
  [8, 2, '1'],
])('%d ranks on %d cores have %s threads each', (ranks, cores, threads) => {
  expect(threadVariables(ranks, {}, cores)).toEqual({
    TF_NUM_INTRAOP_THREADS: threads,
    TF_NUM_INTEROP_THREADS: '1',
    OMP_NUM_THREADS: threads,
  });
});

test('a single rank has them all', () => {
  expect(threadVariables(1, {}, 16)).toEqual({});
});

test('what the user has set stays', () => {
  expect(threadVariables(4, { TF_NUM_INTRAOP_THREADS: '7' }, 16)).not.toHaveProperty('TF_NUM_INTRAOP_THREADS');
});

test.each([
  [1, 1, []],
  [2, 4, []],
  [2, 3, ['--single-threaded-gc']],
  [4, 2, ['--single-threaded-gc']],
])('%d ranks on %d cores: garbage is collected with %j', (ranks, cores, options) => {
  expect(garbageOptions(ranks, cores)).toEqual(options);
});

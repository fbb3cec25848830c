import { differences, growth, type Sample } from './verdict';

const SAMPLES = 40;

/** Samples of two ranks, whose memory at each is what the function says, in MB. */
const samplesOf = (rss: (sample: number) => number, tensors: (sample: number) => number = () => 20): Sample[] =>
  [0, 1].flatMap(rank =>
    Array.from({ length: SAMPLES }, (_, i) => ({
      ...{ rank, step: i, external: 20e6, heapUsed: 30e6, tensors: tensors(i) },
      rss: (rank === 0 ? rss(0) : rss(i)) * 1e6,
    })),
  );

describe('memory is flat', () => {
  test.each([
    ['where it is', () => 200],
    ['where it rises in the first quarter only', (i: number) => Math.min(10, i) * 30],
    ['where it goes up and down', (i: number) => 200 + 50 * (i % 2)],
    ['where the last quarter has 5 % and 5 MB more', (i: number) => (i < 30 ? 200 : 215)],
  ])('%s', (_, rss) => expect(growth(samplesOf(rss))).toEqual([]));
});

describe('memory is not flat', () => {
  test.each([
    ['where the last quarter has more than that', (i: number) => (i < 30 ? 200 : 215.1)],
    ['where it rises steadily', (i: number) => 200 + i],
  ])('%s', (_, rss) => {
    expect(growth(samplesOf(rss))).toEqual([expect.stringMatching(/^rank 1: rss grew from \d+ to \d+$/)]);
  });

  test('where there is one tensor more', () => {
    const words = [0, 1].map(rank => `rank ${rank}: 1 more tensors`);
    expect(growth(samplesOf(() => 200, i => (i < 30 ? 20 : 21)))).toEqual(words); // prettier-ignore
  });
});

test('the weights must be the same on all ranks', () => {
  const told = (rank: number, step: number, hash: string) => ({ rank, step, hash });
  expect(differences([told(0, 1, 'a'), told(1, 1, 'a'), told(0, 2, 'b'), told(1, 2, 'b')], 2)).toEqual([]);
  expect(differences([told(0, 1, 'a'), told(1, 1, 'b')], 2)).toEqual(['after step 1 the weights are not the same']);
  expect(differences([told(0, 1, 'a')], 2)).toEqual(['after step 1 only 1 ranks told of their weights']);
});

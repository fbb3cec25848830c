import { readPage } from '../support/doc-pages';
import { committedResults, pageOf } from '../../scripts/study/write-docs';

const results = committedResults();

test('docs/study.md has the tables of the committed results', () => {
  expect(readPage('docs/study.md')).toBe(pageOf(results));
});

test('README.md says what they say', () => {
  const { methods } = results.workloads.find(({ name }) => name === 'digits')!;
  const signed = (share: number) => `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(2)}`;
  const differenceOf = (wanted: string) => {
    const { mean, low, high } = methods.find(({ name }) => name === wanted)!.differenceFromDense!;
    return [signed(mean), `(${signed(low!)} to ${signed(high!)})`];
  };
  const [dgc, dropping] = ['DGC', 'gradient dropping'].map(differenceOf) as [string[], string[]];
  const words = [
    `On noisy digits, in ${methods[0]!.seeds.length} trainings of each method`,
    `DGC differs from dense by ${dgc.join(' points ')}`,
    `plain gradient dropping by ${dropping.join(' ')}`,
  ];
  const readme = readPage('README.md').replace(/\s+/g, ' ');
  for (const each of words) expect(readme).toContain(each);
});

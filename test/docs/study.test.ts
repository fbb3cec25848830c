import { readPage } from '../support/doc-pages';
import { committedResults, pageOf } from '../../scripts/study/write-docs';

const results = committedResults();

test('docs/study.md has the tables of the committed results', () => {
  expect(readPage('docs/study.md')).toBe(pageOf(results));
});

test('README.md says what they say', () => {
  const differenceOf = (workload: string, method: string) => {
    const { methods } = results.workloads.find(({ name }) => name === workload)!;
    return methods.find(({ name }) => name === method)!.differenceFromDense!;
  };
  const points = (method: string) => {
    const { mean, low, high } = differenceOf('digits', method);
    return [signed(mean), `(${signed(low!)} to ${signed(high!)})`];
  };
  const percent = (method: string) => `${(100 * differenceOf('language', method).mean).toFixed(1)} %`;
  const speech = (method: string) => (100 * differenceOf('speech', method).mean).toFixed(1);
  const { methods } = results.workloads.find(({ name }) => name === 'digits')!;
  const { seeds } = methods[0]!;
  const ratio = methods.find(({ name }) => name === 'DGC by default')!.ratio!;
  const words = [
    `On noisy digits, in ${seeds.length} trainings of each method`,
    `DGC differs from dense by ${points('DGC').join(' points ')}`,
    `plain gradient dropping by ${points('gradient dropping').join(' ')}`,
    `DGC at 99.9 % is worse than dense by ${percent('DGC')} in perplexity, gradient dropping by ${percent('gradient dropping')}`,
    `and DGC with default settings by ${percent('DGC by default')}`,
    `the label error rate rises by ${speech('DGC')}, ${speech('gradient dropping')} and ${speech('DGC by default')} points`,
    `the digits lose ${(-100 * differenceOf('digits', 'DGC by default').mean).toFixed(2)} points at ${ratio.toFixed(0)} times fewer bytes`,
  ];
  const readme = readPage('README.md').replace(/\s+/g, ' ');
  for (const each of words) expect(readme).toContain(each);
});

const signed = (share: number) => `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(2)}`;

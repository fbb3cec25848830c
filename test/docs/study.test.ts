import type { TrainingResult } from '../../src/study/results';
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
  const points = (workload: string, method: string) => {
    const { mean, low, high } = differenceOf(workload, method);
    return [signed(mean), `(${signed(low!)} to ${signed(high!)})`];
  };
  const percent = (method: string) => `${(100 * differenceOf('language', method).mean).toFixed(1)} %`;
  const speech = (method: string) => (100 * differenceOf('speech', method).mean).toFixed(1);
  const methodOf = (workload: string, method: string) =>
    results.workloads.find(({ name }) => name === workload)!.methods.find(({ name }) => name === method)!;
  const ratioOf = (workload: string, method: string) => methodOf(workload, method).ratio!.toFixed(0);
  const { seeds } = methodOf('digits', 'dense');
  const [{ steps }] = methodOf('long-digits', 'dense').seeds as [TrainingResult];
  expect(methodOf('long-digits', 'DGC').verdict).toBe('passes');
  for (const workload of ['digits', 'language', 'speech']) {
    expect(methodOf(workload, 'DGC by default').verdict).toBe('undecided');
  }
  const words = [
    `trained for ${steps.toLocaleString('en-US')} steps, DGC at 99.9 % differs from dense by ${points('long-digits', 'DGC').join(' points ')}`,
    `at ${ratioOf('long-digits', 'DGC')} times fewer bytes, and plain gradient dropping by ${points('long-digits', 'gradient dropping').join(' ')}`,
    `in ${seeds.length} trainings of each method`,
    `DGC then differs from dense by ${points('digits', 'DGC').join(' points ')}`,
    `and gradient dropping by ${points('digits', 'gradient dropping').join(' ')}`,
    `DGC at 99.9 % is worse than dense by ${percent('DGC')} in perplexity, gradient dropping by ${percent('gradient dropping')}`,
    `and DGC with default settings by ${percent('DGC by default')}`,
    `the label error rate rises by ${speech('DGC')}, ${speech('gradient dropping')} and ${speech('DGC by default')} points`,
    `the digits lose ${(-100 * differenceOf('digits', 'DGC by default').mean).toFixed(2)} points at ${ratioOf('digits', 'DGC by default')} times fewer bytes`,
  ];
  const readme = readPage('README.md').replace(/\s+/g, ' ');
  for (const each of words) expect(readme).toContain(each);
});

const signed = (share: number) => `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(2)}`;

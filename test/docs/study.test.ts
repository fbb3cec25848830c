import { readPage } from '../support/doc-pages';
import { committedResults, docsOf } from '../../scripts/study/write-docs';

const results = committedResults();

test('docs/study.md and README.md have the tables of the committed results', () => {
  for (const [file, text] of Object.entries(docsOf(results)))
    expect({ file, text: readPage(file) }).toEqual({ file, text });
});

test('the words of the docs about them are true', () => {
  const workloadOf = (workload: string) => results.workloads.find(({ name }) => name === workload)!;
  const resultOf = (workload: string, method: string) =>
    workloadOf(workload).methods.find(({ name }) => name === method)!;
  const verdictOf = (workload: string, method: string) => resultOf(workload, method).verdict;
  for (const workload of ['digits', 'language', 'speech']) {
    expect([workload, verdictOf(workload, 'DGC')]).toEqual([workload, 'fails']);
    expect([workload, verdictOf(workload, 'gradient dropping')]).toEqual([workload, 'fails']);
    expect(['passes', 'undecided']).toContain(verdictOf(workload, 'DGC by default'));
    const [byDefault, atTheSparsityOfThePaper] = ['DGC by default', 'DGC'].map(
      method => resultOf(workload, method).logLossDifference!.mean,
    );
    expect(byDefault).toBeLessThan(atTheSparsityOfThePaper!);
  }
  for (const workload of ['language', 'speech']) {
    const [byDefault, clipped] = ['DGC by default', 'dense, clipped by rank'].map(
      method => resultOf(workload, method).differenceFromDense!.mean,
    );
    expect(Math.abs(byDefault! - clipped!)).toBeLessThan(results.declared.margins[workload]!.worse / 5);
    const { sameMethod, mustFail } = workloadOf(workload).controls;
    expect([workload, sameMethod!.held, mustFail!.held]).toEqual([workload, true, true]);
  }
  expect(verdictOf('long-digits', 'DGC')).toBe('passes');
  expect(verdictOf('long-digits', 'gradient dropping')).toBe('undecided');
  const margins = Object.values(results.declared.margins).map(({ worse }) => worse);
  expect(margins).toEqual([0.003, 0.003, 0.01, 0.003]);
});

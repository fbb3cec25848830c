import { readPage } from '../support/doc-pages';
import { committedResults, STUDIES, studyDocs } from '../../scripts/study/write-docs';

const [results, first] = STUDIES.map(committedResults) as [
  ReturnType<typeof committedResults>,
  ReturnType<typeof committedResults>,
];

test('the pages of the studies and README.md have the tables of the committed results', () => {
  for (const [file, text] of Object.entries(studyDocs()))
    expect({ file, text: readPage(file) }).toEqual({ file, text });
});

const workloadOf = ({ workloads }: typeof results, workload: string) =>
  workloads.find(({ name }) => name === workload)!;
const resultOf = (study: typeof results, workload: string, method: string) =>
  workloadOf(study, workload).methods.find(({ name }) => name === method)!;

/** The ratio from which on a method may become the default, by the rule that was declared. */
const LEAST_RATIO = 60;

test('the default in short trainings is what the declared rule says', () => {
  const tasks = ['digits', 'language', 'speech'];
  const passes = (method: string) =>
    tasks.filter(task => {
      const { verdict, ratio } = resultOf(results, task, method);
      return verdict === 'passes' && ratio! >= LEAST_RATIO;
    }).length;
  const others = workloadOf(results, 'digits').methods.filter(({ name }) => !name.startsWith('dense'));
  expect(passes('DGC, chosen sparsity')).toBeLessThan(tasks.length);
  for (const { name } of others) {
    if (name !== 'low rank') expect([name, passes(name) < passes('low rank')]).toEqual([name, true]);
  }
});

test('the words of the docs about the first study are true', () => {
  const verdictOf = (workload: string, method: string) => resultOf(first, workload, method).verdict;
  for (const workload of ['digits', 'language', 'speech']) {
    expect([workload, verdictOf(workload, 'DGC')]).toEqual([workload, 'fails']);
    expect([workload, verdictOf(workload, 'gradient dropping')]).toEqual([workload, 'fails']);
    expect(['passes', 'undecided']).toContain(verdictOf(workload, 'DGC by default'));
  }
  for (const workload of ['language', 'speech']) {
    const { sameMethod, mustFail } = workloadOf(first, workload).controls;
    expect([workload, sameMethod!.held, mustFail!.held]).toEqual([workload, true, true]);
  }
  expect(verdictOf('long-digits', 'DGC')).toBe('passes');
  expect(verdictOf('long-digits', 'gradient dropping')).toBe('undecided');
});

import { readPage } from '../support/doc-pages';
import { committedResult, docsOf } from '../../scripts/start/write-docs';

interface Method {
  readonly trainings: readonly { readonly steps: number; readonly weightsHashes: readonly string[] }[];
}

const result = committedResult() as Readonly<Record<'alone' | 'dense' | 'dgc', Method>> & {
  readonly totalSeconds: number;
};

test('README.md and the picture show the committed result of npm start', () => {
  for (const [file, text] of Object.entries(docsOf(result)))
    expect({ file, text: readPage(file) }).toEqual({ file, text });
});

test('README.md says how long npm start takes', () => {
  expect((result.totalSeconds / 60).toFixed()).toBe('3');
  expect(readPage('README.md')).toContain('`npm start` takes about three minutes');
});

test('that is a result of npm start without options', () => {
  expect(result).toMatchObject({ version: 1, ranks: 4, linkRate: '100mbit', seeds: [1, 2, 3], epochs: 20 });
  const steps = [result.alone, result.dense, result.dgc].map(({ trainings }) => trainings.map(each => each.steps));
  expect(steps).toEqual(Array<number[]>(3).fill([900, 900, 900]));
  expect(result).toMatchObject({ replicasIdentical: true });
  for (const { weightsHashes } of [...result.dense.trainings, ...result.dgc.trainings]) {
    expect(weightsHashes).toEqual(Array<string>(4).fill(expect.stringMatching(/^[0-9a-f]{64}$/) as string));
    expect(new Set(weightsHashes).size).toBe(1);
  }
});

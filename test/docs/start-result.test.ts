import { readPage } from '../support/doc-pages';
import { committedResult, docsOf } from '../../scripts/start/write-docs';

interface Method {
  readonly accuracy: number;
  readonly trainings: readonly { readonly steps: number; readonly weightsHashes: readonly string[] }[];
}

const result = committedResult() as {
  readonly gain: Readonly<Record<'alone' | 'dense' | 'compressed', Method>> & {
    readonly speedup: number;
    readonly denseSpeedup: number;
  };
  readonly dense: Method;
  readonly dgc: Method;
  readonly totalSeconds: number;
};

test('README.md and the picture show the committed result of npm start', () => {
  for (const [file, text] of Object.entries(docsOf(result)))
    expect({ file, text: readPage(file) }).toEqual({ file, text });
});

test('README.md says how long npm start takes', () => {
  expect(result.totalSeconds / 60).toBeLessThan(4);
  expect(readPage('README.md')).toContain('`npm start` takes less than four minutes');
});

test('that is a result of npm start without options, in which two machines are faster than one only with compression', () => {
  const { gain, dense, dgc } = result;
  expect(result).toMatchObject({ version: 2, ranks: 4, replicasIdentical: true });
  expect(gain).toMatchObject({ machines: 2, linkRate: '50mbit', seeds: [1, 2, 3], epochs: 5 });
  const all = [gain.alone, gain.dense, gain.compressed];
  expect(all.map(({ trainings }) => trainings.map(({ steps }) => steps))).toEqual(
    Array<number[]>(3).fill([45, 45, 45]),
  );
  for (const { accuracy } of all) expect(Math.abs(accuracy - gain.alone.accuracy)).toBeLessThan(0.01);
  expect(gain.speedup).toBeGreaterThan(1);
  expect(gain.denseSpeedup).toBeLessThan(1);
  for (const [trainings, ranks] of [
    [gain.dense.trainings, 2],
    [gain.compressed.trainings, 2],
    [dense.trainings, 4],
    [dgc.trainings, 4],
  ] as const) {
    for (const { weightsHashes } of trainings) {
      expect(weightsHashes).toEqual(Array<string>(ranks).fill(expect.stringMatching(/^[0-9a-f]{64}$/) as string));
      expect(new Set(weightsHashes).size).toBe(1);
    }
  }
});

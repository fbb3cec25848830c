import { readFileSync } from 'node:fs';
import path from 'node:path';
import { digits, useFolder } from '../scripts/run-digits';

const folder = useFolder();

interface Result {
  readonly ranks: number;
  readonly backend: string;
  readonly seeds: number[];
  readonly dense: Summary;
  readonly dgc: Summary;
  readonly compressionRatio: number | null;
  readonly replicasIdentical: boolean;
}

interface Summary {
  readonly accuracy: number;
  readonly bytesSentPerRank: number;
  readonly seconds: number;
}

const readResult = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as Result;

test('two ranks train the digits with and without compression, and say how it went', async () => {
  const file = path.join(folder(), 'result.json');
  const { exitCode, output } = await digits(2, '--epochs', '2', '--batch-size', '32', '--seeds', '7', '--json', file);
  expect({ exitCode, output }).toEqual({
    exitCode: 0,
    output: expect.stringMatching(/^ranks with the same weights +2 of 2 +2 of 2$/m),
  });

  const result = readResult(file);
  expect(result).toMatchObject({ ranks: 2, backend: 'wasm', seeds: [7], replicasIdentical: true });
  for (const { accuracy, bytesSentPerRank, seconds } of [result.dense, result.dgc]) {
    expect(accuracy).toBeGreaterThan(0.5); // chance is 0.1
    expect(accuracy).toBeLessThanOrEqual(1);
    expect(Number.isInteger(bytesSentPerRank)).toBe(true);
    expect(seconds).toBeGreaterThan(0);
  }
  expect(result.dgc.bytesSentPerRank).toBeGreaterThan(0);
  expect(result.dgc.bytesSentPerRank).toBeLessThan(result.dense.bytesSentPerRank);
  expect(result.compressionRatio).toBeCloseTo(result.dense.bytesSentPerRank / result.dgc.bytesSentPerRank, 5);
});

test('another compression takes the place of DGC', async () => {
  const file = path.join(folder(), 'result.json');
  const args = ['--compression', 'qsgd', '--epochs', '1', '--batch-size', '64', '--seeds', '1', '--json', file];
  const { exitCode, output } = await digits(2, ...args);
  expect(output).toMatch(/ dense +qsgd\n/);
  expect(exitCode).toBe(0);
  const { qsgd, dense, dgc } = readResult(file) as Result & { qsgd: Summary };
  expect(dgc).toBeUndefined();
  expect(qsgd.bytesSentPerRank).toBeGreaterThan(0);
  expect(qsgd.bytesSentPerRank).toBeLessThan(dense.bytesSentPerRank);
});

test('alone it trains as well, and has no compression ratio', async () => {
  const file = path.join(folder(), 'result.json');
  const { exitCode } = await digits(1, '--epochs', '1', '--batch-size', '64', '--seeds', '1', '--json', file);
  expect(exitCode).toBe(0);
  expect(readResult(file)).toMatchObject({ ranks: 1, compressionRatio: null, dense: { bytesSentPerRank: 0 } });
});

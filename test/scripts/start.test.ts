import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { plotOf } from '../../scripts/start/plot';
import { resultOf, tableOf } from '../../scripts/start/result';
import { digits, useFolder } from './run-digits';
import { casesOf, slowTest } from '../support/cases';
import { random } from '../support/random';

const folder = useFolder();

slowTest('it trains on a set in the format of MNIST, of images of any size', async () => {
  const next = random(5);
  const idx = (name: string, sizes: number[], below: number) => {
    const header = Buffer.alloc(4 + 4 * sizes.length);
    header.set([0, 0, 8, sizes.length]);
    sizes.forEach((size, i) => header.writeUInt32BE(size, 4 + 4 * i));
    const bytes = Buffer.alloc(sizes.reduce((product, size) => product * size)).map(() => Math.floor(next() * below));
    writeFileSync(path.join(folder(), name), Buffer.concat([header, bytes]));
  };
  for (const [part, count] of [
    ['train', 32],
    ['t10k', 8],
  ] as const) {
    idx(`${part}-images-idx3-ubyte`, [count, 12, 10], 256);
    idx(`${part}-labels-idx1-ubyte`, [count], 10);
  }
  const { exitCode, output } = await digits(2, '--epochs', '1', '--seeds', '1', '--data-dir', folder());
  expect(output).toMatch(/, in the format of MNIST\n2 ranks; 32 training images, 16 a rank; 8 test images\n/);
  expect(output).toMatch(/^ranks with the same weights +2 of 2/m);
  expect(exitCode).toBe(0);
});

const MISTAKES = casesOf<[string, string[], RegExp]>(
  [['an unknown option', ['--epoch', '2'], /Unknown argument: epoch/]],
  [
    ['no whole number', ['--epochs', '1.5'], /--epochs, --batch-size and --seeds take whole numbers/],
    ['no number', ['--seeds', '1,x'], /--epochs, --batch-size and --seeds take whole numbers/],
    ['an unknown method', ['--methods', 'dense,sparse'], /--methods takes dgc, dense, not 'sparse'/],
    ['a learning rate of 0', ['--learning-rate', '0'], /--learning-rate a positive number/],
  ],
);

test.each(MISTAKES)('%s is told, and fails', async (_, args, message) => {
  const { exitCode, output } = await digits(1, ...args);
  expect(exitCode).not.toBe(0);
  expect(output).toMatch(message);
});

interface Point {
  readonly epoch: number;
  readonly seconds: number;
  readonly testAccuracy: number;
}

const training = (seed: number, curve: readonly Point[], weightsHashes = ['a', 'a']) => ({
  ...{ seed, curve, weightsHashes, accuracy: curve.at(-1)!.testAccuracy, bytesSent: 300, steps: 3 },
  seconds: curve.at(-1)!.seconds,
});
/** A curve with an epoch each so many seconds. */
const curveOf = (seconds: number, ...accuracies: number[]): Point[] =>
  accuracies.map((testAccuracy, i) => ({ epoch: i + 1, seconds: seconds * (i + 1), testAccuracy }));
const run = (linkRate: string | null, trainings: Record<string, ReturnType<typeof training>[]>) => ({
  ...{ ranks: 2, backend: 'wasm', epochs: 1, parameters: 1, seeds: [1], linkRate },
  ...{ compressionRatio: 30, compressionRatioAfterWarmUp: 200 },
  ...Object.fromEntries(Object.entries(trainings).map(([name, each]) => [name, { trainings: each }])),
});
const OPTIONS = { linkRate: '50mbit', seeds: [1, 2], targetAccuracy: 0.9, method: { name: 'low-rank', words: 'lowRank()' } }; // prettier-ignore

/** What `npm start` would write, with these hashes of the weights. */
function resultWith({ machines = ['a', 'a'], ranks = ['b', 'b', 'b', 'b'] } = {}) {
  const small = curveOf(1, 0.98);
  return resultOf(
    {
      alone: run(null, { dense: [training(1, curveOf(10, 0.6, 0.8, 1)), training(2, curveOf(11, 0.8, 0.8, 0.8))] }),
      paced: run('50mbit', {
        dense: [training(1, curveOf(20, 0.5, 0.7, 0.8))],
        'low-rank': [{ ...training(1, curveOf(5, 0.7, 0.8, 1)), bytesSent: 3 }],
      }),
      fast: run(null, {
        dense: [training(2, curveOf(3, 0.5, 0.7, 0.8))],
        'low-rank': [{ ...training(2, curveOf(3, 0.7, 0.8, 1), machines), bytesSent: 3 }],
      }),
      oneOfFour: run(null, { dense: [training(1, small)] }),
      four: { ...run(null, { dense: [training(1, small, ranks)], dgc: [training(1, small, ranks)] }), ranks: 4 },
    } as never,
    OPTIONS,
  );
}

test('the times are those of the first seed, to where the mean of all seeds reaches the target', () => {
  const { gain } = resultWith();
  expect(gain.alone.curve).toEqual(curveOf(10, 0.7, 0.8, 0.9));
  expect(gain.alone.secondsToTarget).toBeCloseTo(30);
  expect(gain.dense.secondsToTarget).toBeNull();
  expect(gain.compressed.secondsToTarget).toBeCloseTo(12.5); // between the points at 10 and 15 s
  expect(gain.speedup).toBeCloseTo(30 / 12.5);
  expect(gain.denseSpeedup).toBeNull();
  expect(gain).toMatchObject({ machines: 2, linkRate: '50mbit', compressed: { method: 'lowRank()', compressionRatio: 100 } }); // prettier-ignore
});

test('the table counts the machines and ranks that have the same weights, and so does the result', () => {
  const rowsOf = (hashes: Parameters<typeof resultWith>[0]) => {
    const result = resultWith(hashes);
    const rows = tableOf(result).filter((line: string) => line.includes('with the same weights'));
    return [result.replicasIdentical, ...rows.map((row: string) => row.split(/  +/).slice(-2))];
  };
  expect(rowsOf({})).toEqual([true, ['2 of 2', '2 of 2'], ['4 of 4', '4 of 4']]);
  expect(rowsOf({ machines: ['a', 'c'] })).toEqual([false, ['2 of 2', '1 of 2'], ['4 of 4', '4 of 4']]);
  expect(rowsOf({ ranks: ['b', 'b', 'c', 'b'] })).toEqual([false, ['2 of 2', '2 of 2'], ['3 of 4', '3 of 4']]);
});

test('the picture has the mean curves, with the time to the target or none', () => {
  const svg = plotOf(resultWith());
  expect(svg).toContain(
    '90 % accuracy: 2 machines, 50 Mbit/s, dense: never; one machine: 30.0 s; 2 machines, 50 Mbit/s, lowRank(): 12.5 s<',
  );
  const curves = [...svg.matchAll(/ d="M([\d. L]+)"/g)].map(([, points]) => points!.split('L').length);
  expect(curves).toEqual([3, 3, 3]);
  expect(svg).not.toMatch(/NaN|undefined|Infinity/); // an error of 0 has no logarithm
});

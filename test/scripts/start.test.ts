import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { plotOf } from '../../scripts/start/plot';
import { resultOf, tableOf } from '../../scripts/start/result';
import { digits, useFolder } from './run-digits';
import { random } from '../support/random';

const folder = useFolder();

test('it trains on a set in the format of MNIST, of images of any size', async () => {
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

test.each([
  ['an unknown option', ['--epoch', '2'], /Unknown argument: epoch/],
  ['no whole number', ['--epochs', '1.5'], /--epochs, --batch-size and --seeds take whole numbers/],
  ['no number', ['--seeds', '1,x'], /--epochs, --batch-size and --seeds take whole numbers/],
  ['an unknown method', ['--methods', 'dense,sparse'], /--methods takes dgc, dense, not 'sparse'/],
  ['a learning rate of 0', ['--learning-rate', '0'], /--learning-rate a positive number/],
])('%s is told, and fails', async (_, args, message) => {
  const { exitCode, output } = await digits(1, ...args);
  expect(exitCode).not.toBe(0);
  expect(output).toMatch(message);
});

test('the table of npm start counts the ranks that have the same weights, and so does its result', () => {
  const training = (seed: number, weightsHashes: string[]) => ({
    ...{ seed, weightsHashes, method: 'dgc', accuracy: 1, bytesSent: 1, seconds: 1 },
    curve: [{ seconds: 1, testAccuracy: 1 }],
  });
  const run = (linkRate: string | null, seed: number, dgc: string[]) => ({
    ...{ ranks: 3, backend: 'wasm', epochs: 1, parameters: 1, linkRate },
    ...{ dense: { trainings: [training(seed, ['a', 'a', 'a'])] }, dgc: { trainings: [training(seed, dgc)] } },
  });
  const rowOf = (...odd: string[]) => {
    const runs = [run(null, 1, ['a']), run('1gbit', 1, ['b', 'b', 'b']), run(null, 2, odd)];
    const result = resultOf(runs as never, { linkRate: '1gbit', seeds: [1, 2], targetAccuracy: 0.9 });
    const row = tableOf(result).find((line: string) => line.startsWith('ranks with the same weights'));
    return [result.replicasIdentical, row?.split(/  +/).slice(1)];
  };
  expect(rowOf('c', 'c', 'c')).toEqual([true, ['–', '3 of 3', '3 of 3']]);
  expect(rowOf('c', 'd', 'c')).toEqual([false, ['–', '3 of 3', '2 of 3']]);
});

test('the picture of npm start has the curves of the first seed, with the time to the target or none', () => {
  const method = (seconds: number, secondsToTarget: number | null, ...accuracies: number[]) => {
    const curve = accuracies.map((testAccuracy, i) => ({
      seconds: ((i + 1) * seconds) / accuracies.length,
      testAccuracy,
    }));
    return {
      seconds,
      secondsToTarget,
      trainings: [
        { seed: 8, curve: [] },
        { seed: 7, curve },
      ],
    };
  };
  const svg = plotOf({
    ...{ ranks: 4, seeds: [7, 8], targetAccuracy: 0.9, linkRate: '2.5gbit' },
    ...{ alone: method(5, 5, 0.8, 1), dense: method(20, null, 0.5, 0.6), dgc: method(10, 7.5, 0.7, 0.8, 0.9, 0.95) },
  });
  expect(svg).toContain(
    '90 % accuracy: 4 ranks, 2.5 Gbit/s, dense: never; 4 ranks, 2.5 Gbit/s, DGC: 7.5 s; one process alone: 5.0 s<',
  );
  const curves = [...svg.matchAll(/ d="M([\d. L]+)"/g)].map(([, points]) => points!.split('L').length);
  expect(curves).toEqual([2, 2, 4]);
  expect(svg).not.toMatch(/NaN|undefined|Infinity/); // an error of 0 has no logarithm
});

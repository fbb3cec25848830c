import path from 'node:path';
import { loadTensorFlowSource } from '../../scripts/train/data/words';
import { launch } from '../../src/launcher/launch';
import { Capture, cleanUp } from '../launcher/support';

afterEach(cleanUp);

/** Runs an example of scripts/train/ on two ranks. */
async function example(name: string, ...args: string[]): Promise<{ exitCode: number; output: string }> {
  const stdout = new Capture();
  const script = path.join(__dirname, '../../scripts/train', `${name}.js`);
  const { exitCode } = await launch({ ranks: 2, script, args, prefix: false, stdout, stderr: stdout });
  return { exitCode, output: stdout.text };
}

const SMALL = {
  resnet: ['--synthetic', '64'],
  lstm: ['--rows', '64', '--units', '16'],
  transformer: ['--rows', '64', '--width', '16'],
  speech: ['--utterances', '64', '--units', '16'],
};

test.each([
  ['resnet', ['dgc'], /Data: synthetic images, not CIFAR-10[^]*test accuracy [\d.]+ %/],
  ['lstm', ['dgc', 'one-bit', 'tern-grad'], /Data: source text of TensorFlow\.js \d[^]*test perplexity [\d.]+/],
  ['transformer', ['low-rank'], /Data: source text of TensorFlow\.js \d[^]*test perplexity [\d.]+/],
  ['speech', ['dgc'], /Data: synthetic utterances \(no real speech\)[^]*test label error rate [\d.]+ %/],
] as const)('%s trains with %j, says what its data are, and ends with the same weights', async (name, compressions, words) => {
  for (const compression of compressions) {
    const { exitCode, output } = await example(name, '--epochs', '1', '--compression', compression, ...SMALL[name]);
    expect(output).toMatch(words);
    expect(output).toMatch(/weights [0-9a-f]{8} on all ranks/);
    expect(exitCode).toBe(0);
  }
}, 600_000); // prettier-ignore

// Speech would take some minutes more. The study trains it.
test.each(['resnet', 'transformer'])('%s spends most of its steps at 99.9 %%, and learns', async name => {
  const { exitCode, output } = await example(name);
  const [, some, all] = /(\d+) of (\d+) steps at density 0\.001;/.exec(output)!;
  expect(Number(some)).toBeGreaterThanOrEqual(Number(all) / 2);
  if (name === 'resnet') {
    expect(output).toMatch(/Data: real handwritten digits/);
    expect(Number(/test accuracy ([\d.]+) %/.exec(output)![1])).toBeGreaterThan(90);
  } else expect(Number(/test perplexity ([\d.]+)/.exec(output)![1])).toBeLessThan(100);
  expect(exitCode).toBe(0);
}, 900_000); // prettier-ignore

test('the source of TensorFlow.js is read the same each time, and says that it is no prose', () => {
  const [first, second] = [loadTensorFlowSource(500), loadTensorFlowSource(500)];
  expect(first.source).toMatch(/TensorFlow\.js \d+\.\d+\.\d+ \(no prose/);
  expect(first.vocabulary).toHaveLength(500);
  expect(first.train.length).toBeGreaterThan(900_000);
  for (const part of [first.valid, first.test]) expect(part.length).toBeGreaterThan(40_000);
  expect(Buffer.compare(Buffer.from(first.train.buffer), Buffer.from(second.train.buffer))).toBe(0);
  expect(Math.max(...first.test)).toBeLessThan(500);
});

test.each(['resnet', 'lstm', 'transformer', 'digits', 'speech'])('%s: a data directory without data is told in a line', async name => {
  const { exitCode, output } = await example(name, '--data-dir', __dirname);
  expect(exitCode).toBe(1);
  expect(output).toMatch(/slow has no (data_batch_1\.bin|ptb\.train\.txt|train-images-idx3-ubyte|<speaker>\/<chapter>\/\S+)(, nor| of two speakers)/);
  expect(output).not.toMatch(/^ +at /m);
}, 120_000); // prettier-ignore

test('jax-digits says which package it needs', async () => {
  const { exitCode, output } = await example('jax-digits');
  expect(exitCode).toBe(1);
  expect(output).toMatch(/^@jax-js\/jax is not installed: npm install @jax-js\/jax$/m);
});

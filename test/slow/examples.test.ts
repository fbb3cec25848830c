import path from 'node:path';
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

test.each([
  ['resnet', ['--train-images', '64', '--batch-size', '16'], /Data: synthetic images, not CIFAR-10[^]*test accuracy [\d.]+ %/],
  ['lstm', ['--rows', '64', '--units', '16'], /Data: source text of TensorFlow\.js \d[^]*test perplexity [\d.]+/],
  ['transformer', ['--rows', '64', '--width', '16'], /Data: source text of TensorFlow\.js \d[^]*test perplexity [\d.]+/],
  ['speech', ['--utterances', '64', '--units', '16'], /Data: synthetic utterances \(no real speech\)[^]*test label error rate [\d.]+ %/],
])('%s trains, says what its data are, and ends with the same weights on all ranks', async (name, args, words) => {
  const { exitCode, output } = await example(name, '--epochs', '1', ...args);
  expect(output).toMatch(words);
  expect(output).toMatch(/weights [0-9a-f]{8} on all ranks/);
  expect(exitCode).toBe(0);
}, 300_000); // prettier-ignore

test.each(['resnet', 'lstm', 'transformer', 'digits', 'speech'])('%s: a data directory without data is told in a line', async name => {
  const { exitCode, output } = await example(name, '--data-dir', __dirname);
  expect(exitCode).toBe(1);
  expect(output).toMatch(/slow has no (data_batch_1\.bin|ptb\.train\.txt|train-images-idx3-ubyte|<speaker>\/<chapter>\/\S+)(, nor| of two speakers)/);
  expect(output).not.toMatch(/^ +at /m);
}, 120_000); // prettier-ignore

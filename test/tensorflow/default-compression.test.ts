import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { dgc } from '../../src/compression/dgc-options';
import { loadBackend } from '../../src/tensorflow/backend';
import { stepsOf } from '../../src/tensorflow/optimizer-steps';
import type { WrapOptions } from '../../src/tensorflow/wrap-options';
import { connect, type Ring } from '../../src/tensorflow/ring';

let ring: Ring;
let folder: string;
let said: string[];
beforeAll(async () => {
  await loadBackend({ backend: 'cpu' });
  ring = await connect({ rank: 0, worldSize: 1 });
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-default-'));
});
afterAll(async () => {
  await ring.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  said = [];
  jest.spyOn(process.stderr, 'write').mockImplementation(text => (said.push(String(text)), true));
});
afterEach(() => jest.restoreAllMocks());

const ROWS = 100;

/** A model with its optimizer. */
function modelOf(inner: tf.Optimizer, options: WrapOptions = {}) {
  const model = tf.sequential({ name: 'small', layers: [tf.layers.dense({ inputShape: [40], units: 30 })] });
  const optimizer = ring.wrap(inner, options);
  model.compile({ optimizer, loss: 'meanSquaredError' });
  return { model, optimizer };
}

type Made = ReturnType<typeof modelOf>;

const rows = () => [tf.ones([ROWS, 40]), tf.ones([ROWS, 30])] as const;

/** Begins a `model.fit` of so many epochs of 100 steps, and ends it after some. */
async function fit({ model }: Made, epochs: number, taken = 1, callbacks = ring.callbacks()): Promise<void> {
  const stop = new tf.CustomCallback({
    onBatchEnd: async batch => {
      if (batch + 1 === taken) model.stopTraining = true;
    },
  });
  await model.fit(...rows(), { epochs, batchSize: 1, verbose: 0, shuffle: false, callbacks: [...callbacks, stop] });
}

const momentum = () => tf.train.momentum(1e-4, 0.9);
const SHORT =
  /^gradring: lowRank\(\) compresses the gradients of the \S+ optimizer of small_model: the default for \d+ steps( that share \d+ exchanges)?\. /;
const LONG =
  /^gradring: dgc\(\{ sparsity: 0\.999, warmUpSteps: 400 \}\) compresses the gradients of the \S+ optimizer of small_model: /;

test.each<[string, number, RegExp, tf.Optimizer, WrapOptions]>([
  ['of fewer than 10,000 steps', 99, SHORT, momentum(), {}],
  ['of 10,000 steps', 100, LONG, momentum(), {}],
  ['of 10,000 steps of plain SGD', 100, LONG, tf.train.sgd(1e-4), {}],
  ['of 10,000 steps of Adam, whose momentum no rank can apply before it selects,', 100, SHORT, tf.train.adam(), {}],
  ['of 10,000 steps that share exchanges', 100, SHORT, momentum(), { accumulate: 2 }],
])('a model.fit %s has its default', async (_, epochs, words, inner, options) => {
  const made = modelOf(inner, options);
  await fit(made, epochs);
  expect(said[0]).toMatch(words);
  expect(said).toHaveLength(1);
  expect(made.optimizer.statistics.density).toBe(words === LONG ? 0.25 : 1);
});

test('the default of a loop, and of a data set of unknown length, is that of a short training', async () => {
  const w = tf.variable(tf.ones([40, 30]), true, 'w');
  await ring.wrap(tf.train.sgd(0.1)).minimizeAsync(() => w.square().mean() as tf.Scalar);
  const { model } = modelOf(momentum());
  const [xs, ys] = rows();
  const generator = function* () {
    for (let i = 0; i < 3; i++) yield { xs: xs.slice([i], [1]), ys: ys.slice([i], [1]) };
  };
  const data = tf.data.generator(generator as unknown as () => Generator<{ xs: tf.Tensor; ys: tf.Tensor }>);
  await model.fitDataset(data, { epochs: 1, verbose: 0, callbacks: ring.callbacks() });
  expect(said).toEqual([
    expect.stringMatching(/^gradring: lowRank\(\) .* the SGD optimizer of 'w': the default for a training of unknown/),
    expect.stringMatching(
      /^gradring: lowRank\(\) .* the Momentum optimizer of small_model: the default for a training of/,
    ),
  ]);
});

test('a training keeps what was chosen, also when it goes on for longer, or from a checkpoint', async () => {
  const made = modelOf(momentum());
  const dir = path.join(folder, 'short');
  await fit(made, 1, 3);
  await fit(made, 200);
  expect(made.optimizer.statistics.density).toBe(1);
  await ring.checkpoint(made.model, { dir }).save();
  const resumed = modelOf(momentum());
  await ring.checkpoint(resumed.model, { dir }).resume();
  await fit(resumed, 200);
  expect(resumed.optimizer.statistics.density).toBe(1);
  expect(said.join('')).not.toContain('dgc(');

  const long = path.join(folder, 'long');
  const begun = modelOf(momentum());
  await fit(begun, 100);
  await ring.checkpoint(begun.model, { dir: long }).save();
  const accumulating = modelOf(momentum(), { accumulate: 4 });
  await ring.checkpoint(accumulating.model, { dir: long }).resume();
  expect(stepsOf(accumulating.optimizer)!.choice.compression).toMatchObject({ kind: 'dgc', sparsity: 0.999 });
  await expect(ring.checkpoint(begun.model, { dir }).resume()).rejects.toMatchObject({
    code: 'ERR_CHECKPOINT',
    message: expect.stringMatching(
      /^The checkpoint was saved with lowRank\(\), but this training has begun with dgc\(\{ sparsity: 0\.999, warmUpSteps: 400 \}\)\. /,
    ) as string,
  });
});

test('a checkpoint of a compression that the program had given needs it again', async () => {
  const dir = path.join(folder, 'given');
  const given = modelOf(tf.train.sgd(1e-4), { compression: dgc({ sparsity: 0.9, warmUpEpochs: 0 }) });
  await fit(given, 1);
  await ring.checkpoint(given.model, { dir }).save();
  await expect(ring.checkpoint(modelOf(tf.train.sgd(1e-4)).model, { dir }).resume()).rejects.toMatchObject({
    code: 'ERR_CHECKPOINT',
    message: expect.stringMatching(/^The checkpoint was saved with another compression than lowRank\(\), /) as string,
  });
});

test('what a fit that took no step would have had is not kept', async () => {
  const made = modelOf(momentum());
  const fails = new tf.CustomCallback({ onBatchBegin: async () => Promise.reject(new Error('on purpose')) });
  const failing = made.model.fit(...rows(), { epochs: 200, batchSize: 1, verbose: 0, callbacks: [...ring.callbacks(), fails] }); // prettier-ignore
  await expect(failing).rejects.toThrow('on purpose');
  await fit(made, 1);
  expect(made.optimizer.statistics.density).toBe(1);
});

test('learningRateWarmUp: true lasts as long as the warm-up of the default, which a short training has not', async () => {
  const warmUps: number[] = [];
  for (const epochs of [1, 100]) {
    const made = modelOf(momentum());
    await fit(made, epochs, 1, ring.callbacks({ learningRateWarmUp: true }));
    warmUps.push(stepsOf(made.optimizer)!.choice.warmUpSteps(0));
  }
  expect(warmUps).toEqual([0, 400]);
});

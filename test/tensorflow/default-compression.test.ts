import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { customCompression, lowRank } from '../../src/compression/compressors/custom-compression';
import { dgc, noCompression } from '../../src/compression/dgc-options';
import { loadBackend } from '../../src/tensorflow/backend';
import { stepsOf } from '../../src/tensorflow/optimizer-steps';
import type { WrapOptions } from '../../src/tensorflow/wrap-options';
import { connect, type Ring } from '../../src/tensorflow/ring';

let ring: Ring;
let folder: string;
let said: string[];
beforeAll(async () => {
  await loadBackend({ backend: 'cpu' });
  ring = await connect({ rank: 0, worldSize: 1, threads: 1 });
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
  const told = said.filter(words => words.includes('dgc('));
  expect(told).toHaveLength(2); // each optimizer once
  expect(told[0]).toBe(
    'gradring: the Momentum optimizer of small_model keeps lowRank(), which was chosen for 100 steps. A training that has 20003 steps from the start has dgc({ sparsity: 0.999, warmUpSteps: 800 }) by default. { compression } sets what it begins with.\n',
  );

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

const SIGN_SGD = path.join(__dirname, '../../docs/how-to/sign-sgd.js');
const OTHER = path.join(__dirname, '../exchange/fixtures/sharing-compressor.js');
const sparse = dgc({ sparsity: 0.9, warmUpEpochs: 0 });

test.each<[saved: string, now: string, WrapOptions, WrapOptions, RegExp | undefined]>([
  [
    'dgc',
    'the default',
    { compression: sparse },
    {},
    /dgc\({ sparsity: 0\.9, warmUpEpochs: 0 }\), but lowRank\(\) is the default here\./,
  ],
  [
    'none',
    'the default',
    { compression: noCompression() },
    {},
    /noCompression\(\), but lowRank\(\) is the default here\./,
  ],
  [
    'rank 2',
    'the default',
    { compression: lowRank({ rank: 2 }) },
    {},
    /lowRank\({ rank: 2 }\), but lowRank\(\) is the def/,
  ],
  [
    'the default',
    'none',
    {},
    { compression: noCompression() },
    /lowRank\(\), but this training has noCompression\(\)\. Pass/,
  ],
  [
    'a file',
    'another file',
    { compression: customCompression(SIGN_SGD) },
    { compression: customCompression(OTHER) },
    /customCompression\('\S+sign-sgd\.js'\), but this training has customCompression\('\S+sharing-compressor\.js'\)\. Pass/,
  ],
  ['the default', 'its name', {}, { compression: lowRank() }, undefined],
  ['none', 'dgc', { compression: noCompression() }, { compression: sparse }, undefined],
  ['dgc', 'another dgc', { compression: sparse }, { compression: dgc({ sparsity: 0.99, warmUpEpochs: 0 }) }, undefined],
])('a checkpoint of %s, resumed with %s', async (saved, now, before, after, refusal) => {
  const dir = path.join(folder, `${saved}, ${now}`);
  const given = modelOf(momentum(), before);
  await fit(given, 1);
  await ring.checkpoint(given.model, { dir }).save();
  const resumed = modelOf(momentum(), after);
  const initial = [...resumed.model.getWeights()[0]!.dataSync()];
  const resuming = ring.checkpoint(resumed.model, { dir }).resume();
  if (refusal === undefined) await expect(resuming).resolves.toBeDefined();
  else {
    const message = expect.stringMatching(new RegExp(`^The checkpoint was saved with ${refusal.source}`)) as string;
    await expect(resuming).rejects.toMatchObject({ code: 'ERR_CHECKPOINT', message });
    expect([...resumed.model.getWeights()[0]!.dataSync()]).toEqual(initial);
  }
});

test('a model for which low rank computes long on one thread is told of it', async () => {
  const w = tf.variable(tf.ones([4000, 3600]), true, 'large');
  await ring.wrap(tf.train.sgd(1e-4)).minimizeAsync(() => w.sum());
  w.dispose();
  expect(said[1]).toBe(
    "gradring: lowRank() computes about 0.1 s in each step for the 14400000 parameters of the SGD optimizer of 'large'. If a step does not take much longer than that, { compression: dgc() } is faster.\n",
  );
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

import * as tf from '@tensorflow/tfjs';
import language from '../../scripts/train/study/language';
import { noCompression } from '../../src/compression/dgc-options';
import { loadBackend } from '../../src/tensorflow/backend';
import { connect } from '../../src/tensorflow/ring';
import { trained } from '../train/study-support';

test('the language model learns on two ranks, the same with the same seed, and disposes of its tensors', async () => {
  const ranks = await trained('language', { learningRate: 20, seeds: [1, 1, 2] });
  for (const { name, data, trainings, kept } of ranks) {
    expect(name).toBe('language');
    expect(data).toMatch(/source text of TensorFlow\.js \d/);
    expect(kept).toBe(0);
    const [first, again, other] = trainings;
    expect(again).toEqual(first);
    expect(other!.logLoss).not.toBe(first!.logLoss);
    const { score, logLoss, steps, examples, reports, bytesSent, denseBytes } = first!;
    expect(score).toBeCloseTo(Math.exp(logLoss), 5);
    expect(examples.reduce((sum, loss) => sum + loss, 0) / examples.length).toBeCloseTo(logLoss, 5);
    expect(score).toBeLessThan(100); // it would be 200 if all words were equally likely
    expect(reports.length).toBeGreaterThan(10);
    expect(reports.at(-1)!.step).toBe(steps);
    expect(reports.at(-1)!.loss).toBeLessThan(reports[0]!.loss);
    expect(bytesSent).toBeGreaterThan(0);
    expect(denseBytes).toBeGreaterThan(0);
  }
  expect(ranks[0]!.trainings.map(({ score }) => score)).toEqual(ranks[1]!.trainings.map(({ score }) => score));
}, 120_000);

test('the language model tries learning rates on text that does not count', async () => {
  await loadBackend({ backend: 'wasm' });
  const ring = await connect();
  const prepared = await language.prepare(tf, { quick: true, dataDir: undefined, worldSize: 1 });
  const exchanged = { ...prepared, testRows: prepared.tuningRows, tuningRows: prepared.testRows };
  const examplesOf = async (data: typeof prepared, isTuning: boolean) => {
    let optimizer!: tf.Optimizer;
    const wrapped = (plain: tf.Optimizer) => (optimizer = ring.wrap(plain, { compression: noCompression() }));
    const settings = { part: 0, wrapped, isTuning, learningRate: 20, seed: 1, report: () => {} };
    const { examples } = await language.train(data, { tf, ring, ...settings });
    optimizer.dispose();
    return examples;
  };
  const tried = await examplesOf(prepared, true);
  expect(tried).toEqual(await examplesOf(exchanged, false));
  expect(tried).not.toEqual(await examplesOf(prepared, false));
  await ring.close();
});

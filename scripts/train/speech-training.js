// What speech.js and the study share: batches of utterances, and the label error rate.
const seedrandom = require('seedrandom');
const { BANDS } = require('./data/filter-bank');

/**
 * The batches of an epoch: utterances of about the same length together, in random order. An incomplete last batch is
 * left out. With the same seed the lengths of the batches are about the same on all ranks, so that none waits long.
 *
 * @template {{ frames: number }} T
 * @param {T[]} utterances
 * @param {{ batchSize: number, seed: number, epoch: number }} options
 * @returns {T[][]}
 */
function batchesOf(utterances, { batchSize, seed, epoch }) {
  const random = seedrandom(`${seed} epoch ${epoch}`);
  const byLength = utterances
    .map(utterance => ({ utterance, place: utterance.frames * (0.8 + 0.4 * random()) }))
    .sort((a, b) => a.place - b.place)
    .map(({ utterance }) => utterance);
  const batches = [];
  for (let at = 0; at + batchSize <= byLength.length; at += batchSize) batches.push(byLength.slice(at, at + batchSize));
  return batches
    .map(batch => ({ batch, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ batch }) => batch);
}

/** What the model takes: x [batch, time, bands], padded with zeros, and the lengths. The caller disposes of x. */
function toBatch(tf, utterances) {
  const time = Math.max(...utterances.map(({ frames }) => frames));
  const values = new Float32Array(utterances.length * time * BANDS);
  utterances.forEach(({ features }, i) => values.set(features, i * time * BANDS));
  return {
    x: tf.tensor3d(values, [utterances.length, time, BANDS]),
    frames: utterances.map(({ frames }) => frames),
    labels: utterances.map(({ labels }) => labels),
  };
}

/**
 * Trains a model. The learning rate is divided by `decay` after each epoch.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {object} options
 * @param {{ losses(batch: object): import('@tensorflow/tfjs').Tensor }} options.model
 * @param {import('../..').RingOptimizer} options.optimizer With the first learning rate.
 * @param {import('./data/utterances').Utterance[]} options.utterances Those of this rank.
 * @param {number} options.epochs
 * @param {number} options.steps In an epoch, the same on all ranks.
 * @param {number} options.batchSize
 * @param {number} options.decay
 * @param {number} options.seed Decides the order.
 * @param {object} options.callbacks `onEpochBegin(epoch)`, `onBatchEnd(step, { loss })`, `onEpochEnd(epoch, { loss })`.
 */
async function train(tf, { model, optimizer, utterances, epochs, steps, batchSize, decay, seed, callbacks }) {
  const { learningRate } = optimizer;
  for (let epoch = 0; epoch < epochs; epoch++) {
    optimizer.setEpoch(epoch);
    optimizer.learningRate = learningRate / decay ** epoch;
    await callbacks.onEpochBegin?.(epoch);
    let sum = 0;
    for (const [step, group] of batchesOf(utterances, { batchSize, seed, epoch }).slice(0, steps).entries()) {
      const batch = toBatch(tf, group);
      const cost = await optimizer.minimizeAsync(() => model.losses(batch).mean(), true);
      const [loss] = await cost.data();
      tf.dispose([batch.x, cost]);
      sum += loss;
      await callbacks.onBatchEnd?.(step, { loss });
    }
    await callbacks.onEpochEnd?.(epoch, { loss: sum / steps });
  }
}

/** How many steps each of the ranks can take in an epoch. */
const stepsOf = (utterances, { worldSize }, batchSize) =>
  Math.floor(Math.floor(utterances.length / worldSize) / batchSize);

/**
 * Tests a model. Each rank takes a part of the utterances; all get the result.
 *
 * @returns {Promise<{ errorRate: number, loss: number, errorRates: Float64Array }>} The label error rate (edits ÷
 *   labels, over all utterances); the mean loss in nats; for each utterance its edits ÷ the mean number of labels, so
 *   that the mean of these is the label error rate.
 */
async function evaluate(tf, ring, model, utterances, batchSize) {
  const count = utterances.length;
  const results = new Float64Array(2 * count); // edits, then losses
  const own = utterances
    .map((utterance, i) => ({ ...utterance, i }))
    .filter(({ i }) => i % ring.worldSize === ring.rank)
    .sort((a, b) => a.frames - b.frames);
  for (let at = 0; at < own.length; at += batchSize) {
    const part = own.slice(at, at + batchSize);
    const batch = toBatch(tf, part);
    const { losses, heard } = model.tested(batch);
    batch.x.dispose();
    part.forEach(({ i, labels }, row) => {
      results[i] = editDistance(heard[row], labels);
      results[count + i] = losses[row];
    });
  }
  await ring.allReduce(results, { op: 'sum' });
  const labelCount = utterances.reduce((sum, { labels }) => sum + labels.length, 0);
  const errorRates = results.slice(0, count).map(edits => (edits * count) / labelCount);
  return { errorRate: mean(errorRates), loss: mean(results.subarray(count)), errorRates };
}

/** How many labels must be inserted, left out or changed to make one sequence the other (Levenshtein, 1966). */
function editDistance(from, to) {
  let row = Array.from({ length: to.length + 1 }, (_, j) => j);
  from.forEach((label, i) => {
    const next = [i + 1];
    to.forEach((other, j) => {
      next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (label === other ? 0 : 1)));
    });
    row = next;
  });
  return row[to.length];
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;

module.exports = { batchesOf, editDistance, evaluate, stepsOf, toBatch, train };

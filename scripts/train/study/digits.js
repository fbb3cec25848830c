// Noisy digits for `gradring study`: the network of digits.js, on images that are moved and covered with noise anew in
// each epoch. The digits as they are would be too easy to tell compressions apart.
const seedrandom = require('seedrandom');
const { imagesOf, oneHot } = require('../data/image-batches');
const { loadShippedDigits } = require('../data/optdigits');
const { shuffled } = require('../data/shuffled');
const { gaussian } = require('../data/utterances');
const { digitsModel } = require('../digits-model');

const FOLDS = [0, 1, 2, 3, 4];
const SIDE = 8;
const PIXELS = SIDE * SIDE;
/** The images of a step, of all ranks together. */
const STEP_IMAGES = 32;
const EPOCHS = 20;
const REPORTS = 20;
/** The standard deviation of the noise; the intensities are 0 to 1. */
const NOISE = 0.2;
/** Images are moved by up to so many pixels, across and down. */
const MOVE = 1;
/** Each image is tested so often, with other noise. */
const TEST_COPIES = 4;

function prepare(tf, { quick, worldSize }) {
  const folds = FOLDS.map(fold => {
    const { train, test, source } = loadShippedDigits(tf, { fold });
    return { train: rowsOf(tf, train), test: noisyCopies(tf, rowsOf(tf, test), `test ${fold}`), source };
  });
  const epochs = quick ? 1 : EPOCHS;
  const batchSize = Math.max(1, Math.floor(STEP_IMAGES / worldSize));
  const stepsPerEpoch = Math.floor(Math.floor(folds[0].train.count / worldSize) / batchSize);
  const data = `${folds[0].source}, moved by up to ${MOVE} pixel and with noise of ${NOISE} of the intensity range`;
  return { data, folds, epochs, batchSize, stepsPerEpoch, steps: epochs * stepsPerEpoch };
}

async function train({ folds, epochs, batchSize, stepsPerEpoch, steps }, inputs) {
  const { tf, ring, part, wrapped, learningRate, seed, fold, report } = inputs;
  const { train: rows, test } = folds[fold];
  const optimizer = wrapped(tf.train.momentum(learningRate, 0.9));
  const model = digitsModel(tf, { imageShape: [SIDE, SIDE, 1], seed, optimizer });
  let [sum, summed] = [0, 0];
  for (let epoch = 0; epoch < epochs; epoch++) {
    optimizer.learningRate = learningRateAt(epoch / epochs, learningRate);
    const random = seedrandom(`${seed} epoch ${epoch}`);
    const order = shuffled(rows.count, random); // the same on all ranks
    const own = seedrandom(`${seed} epoch ${epoch} rank ${part}`);
    for (let step = 0; step < stepsPerEpoch; step++) {
      const start = (step * ring.worldSize + part) * batchSize;
      const [x, y] = noisy(tf, rows, order.subarray(start, start + batchSize), own);
      const cost = await optimizer.minimizeAsync(
        () => tf.metrics.categoricalCrossentropy(y, model.apply(x, { training: true })).mean(),
        true,
      );
      sum += (await cost.data())[0];
      summed++;
      tf.dispose([x, y, cost]);
    }
    const isDue = (epoch + 1) % Math.ceil(epochs / REPORTS) === 0;
    if (!isDue || ring.rank !== 0) continue;
    const { bytesSent } = optimizer.statistics;
    const point = { step: optimizer.statistics.steps, loss: sum / summed, bytes: bytesSent };
    report({ ...point, error: 1 - scoreOf(tf, model, test).score });
    [sum, summed] = [0, 0];
  }
  await ring.verifyReplicas(model);

  const { bytesSent, denseBytes } = optimizer.statistics;
  const result = { ...scoreOf(tf, model, test), steps, bytesSent, denseBytes, parameters: model.countParams() };
  model.dispose();
  return result;
}

/** A tenth of the first one after half of the training, a hundredth after three quarters, as for the paper's ResNet. */
const learningRateAt = (done, first) => first / 10 ** (Number(done >= 0.5) + Number(done >= 0.75));

/** Images and labels as plain numbers, in the place of their tensors. */
function rowsOf(tf, set) {
  const { pixels, labels } = imagesOf(tf, set);
  tf.dispose([set.x, set.y]);
  return { count: labels.length, pixels, labels };
}

/** Some of the images, each moved and with noise, and their labels: x [n, 8, 8, 1], y [n, 10]. */
function noisy(tf, { pixels, labels }, chosen, random) {
  const x = new Float32Array(chosen.length * PIXELS);
  for (const [i, image] of chosen.entries()) {
    const [right, down] = [0, 0].map(() => Math.floor(random() * (2 * MOVE + 1)) - MOVE);
    for (let at = 0; at < PIXELS; at++) {
      const [column, row] = [(at % SIDE) - right, Math.floor(at / SIDE) - down];
      const isInside = column >= 0 && column < SIDE && row >= 0 && row < SIDE;
      const value = isInside ? pixels[image * PIXELS + row * SIDE + column] : 0;
      x[i * PIXELS + at] = value + NOISE * gaussian(random);
    }
  }
  const ofChosen = Int32Array.from(chosen, image => labels[image]);
  return [tf.tensor4d(x, [chosen.length, SIDE, SIDE, 1]), oneHot(tf, ofChosen)];
}

function noisyCopies(tf, rows, seed) {
  const chosen = Uint32Array.from({ length: rows.count * TEST_COPIES }, (_, i) => i % rows.count);
  const [x, y] = noisy(tf, rows, chosen, seedrandom(seed));
  return { x, y, count: rows.count };
}

/** The accuracy, the mean log-loss, and for each image which share of its copies was recognized. */
function scoreOf(tf, model, { x, y, count }) {
  const [hits, logLoss] = tf.tidy(() => {
    const probabilities = model.predict(x, { batchSize: 360 });
    const logLosses = probabilities.add(tf.backend().epsilon()).log().mul(y).sum(1).neg();
    return [probabilities.argMax(1).equal(y.argMax(1)).dataSync(), logLosses.mean().dataSync()[0]];
  });
  const examples = new Float64Array(count);
  hits.forEach((hit, i) => (examples[i % count] += hit / TEST_COPIES));
  return { score: examples.reduce((sum, share) => sum + share, 0) / count, logLoss, examples };
}

module.exports = { name: 'digits', prepare, train };

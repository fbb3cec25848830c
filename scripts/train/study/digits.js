// The digits for `gradring study`, as digits.js trains them.
const seedrandom = require('seedrandom');
const { loadShippedDigits } = require('../data/optdigits');
const { digitsModel } = require('../digits-model');

const FOLDS = [0, 1, 2, 3, 4];
const BATCH_SIZE = 8;

function prepare(tf, { quick, worldSize }) {
  const folds = FOLDS.map(fold => loadShippedDigits(tf, { fold }));
  const epochs = quick ? 2 : 20;
  const stepsPerEpoch = Math.ceil(Math.ceil(folds[0].train.x.shape[0] / worldSize) / BATCH_SIZE);
  return { data: folds[0].source, folds, epochs, steps: epochs * stepsPerEpoch };
}

async function train({ folds, epochs }, { tf, ring, compression, learningRate, seed, fold, report }) {
  seedrandom(`${seed} ${ring.rank}`, { global: true }); // model.fit shuffles with Math.random
  const { train, test } = folds[fold];
  const optimizer = ring.wrap(tf.train.momentum(learningRate, 0.9), { compression });
  const model = digitsModel(tf, { imageShape: train.x.shape.slice(1), seed, optimizer });
  const reporting = {
    onEpochEnd(epoch, { loss }) {
      const { steps, bytesSent } = optimizer.statistics;
      report({ step: steps, loss, error: 1 - tested(tf, model, test).score, bytes: bytesSent });
    },
  };
  const rows = ring.shard(train.x, train.y);
  const callbacks = ring.callbacks({ also: [reporting] });
  await model.fit(...rows, { epochs, batchSize: BATCH_SIZE, verbose: 0, callbacks });
  await ring.verifyReplicas(model);

  const { steps, bytesSent, denseBytes } = optimizer.statistics;
  const result = { ...tested(tf, model, test), steps, bytesSent, denseBytes, parameters: model.countParams() };
  tf.dispose(rows);
  model.dispose();
  optimizer.dispose();
  return result;
}

/** The accuracy, the mean log-loss, and for each image 1 if it was recognized and 0 if not. */
function tested(tf, model, { x, y }) {
  const [hits, logLoss] = tf.tidy(() => {
    const probabilities = model.predict(x);
    const logLosses = probabilities.add(tf.backend().epsilon()).log().mul(y).sum(1).neg();
    return [probabilities.argMax(1).equal(y.argMax(1)).dataSync(), logLosses.mean().dataSync()[0]];
  });
  const examples = Float32Array.from(hits);
  return { score: examples.reduce((sum, hit) => sum + hit, 0) / examples.length, logLoss, examples };
}

module.exports = { name: 'digits', prepare, train };

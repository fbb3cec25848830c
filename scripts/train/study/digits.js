// The digits for `gradring study`, as digits.js trains them.
const seedrandom = require('seedrandom');
const { loadShippedDigits } = require('../data/optdigits');
const { digitsModel } = require('../digits-model');
const { imageScore } = require('./image-score');

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
    onEpochEnd(_epoch, { loss }) {
      if (ring.rank !== 0) return;
      const { steps, bytesSent } = optimizer.statistics;
      report({ step: steps, loss, error: 1 - imageScore(tf, model, test).score, bytes: bytesSent });
    },
  };
  const rows = ring.shard(train.x, train.y);
  const callbacks = ring.callbacks({ also: [reporting] });
  await model.fit(...rows, { epochs, batchSize: BATCH_SIZE, verbose: 0, callbacks });
  await ring.verifyReplicas(model);

  const { steps, bytesSent, denseBytes } = optimizer.statistics;
  const result = { ...imageScore(tf, model, test), steps, bytesSent, denseBytes, parameters: model.countParams() };
  tf.dispose(rows);
  model.dispose();
  optimizer.dispose();
  return result;
}

module.exports = { name: 'digits', prepare, train };

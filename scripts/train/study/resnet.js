// ResNet-8 on the digits for `gradring study`, as resnet.js trains it: SGD with momentum, weight decay, and images that
// are changed at random.
const { imagesOf, augmentedBatches } = require('../data/image-batches');
const { loadShippedDigits } = require('../data/optdigits');
const { resnet } = require('../resnet-model');
const { imageScore } = require('./image-score');

const FULL = { depth: 8, batchSize: 8, epochs: 20 };
const QUICK = { depth: 8, batchSize: 8, epochs: 2 };
const REPORTS = 20;
const WEIGHT_DECAY = 1e-4;

function prepare(tf, { quick, worldSize }) {
  const folds = [0, 1, 2, 3, 4].map(fold => loadShippedDigits(tf, { fold }));
  const sizes = quick ? QUICK : FULL;
  const batches = Math.floor(folds[0].train.x.shape[0] / sizes.batchSize);
  return { ...sizes, data: folds[0].source, folds, steps: sizes.epochs * Math.ceil(batches / worldSize) };
}

async function train(prepared, { tf, ring, compression, learningRate, seed, fold, report }) {
  const { depth, batchSize, epochs, folds } = prepared;
  const { test } = folds[fold];
  const images = imagesOf(tf, folds[fold].train);
  const model = resnet(tf, { depth, seed, imageShape: images.shape });
  const optimizer = ring.wrap(tf.train.momentum(learningRate, 0.9), { compression, weightDecay: WEIGHT_DECAY });
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });

  const callback = {
    onEpochBegin(epoch) {
      const drops = (epoch >= epochs / 2) + (epoch >= (epochs * 3) / 4);
      optimizer.learningRate = learningRate / 10 ** drops;
    },
    onEpochEnd(epoch, { loss }) {
      if ((epoch + 1) % Math.ceil(epochs / REPORTS) !== 0 && epoch + 1 < epochs) return;
      const { score } = imageScore(tf, model, test);
      const { steps, bytesSent } = optimizer.statistics;
      report({ step: steps, loss, error: 1 - score, bytes: bytesSent });
    },
  };
  const batches = augmentedBatches(tf, images, { batchSize, seed, padding: 1, mirrors: false });
  await model.fitDataset(ring.shard(batches), { epochs, verbose: 0, callbacks: ring.callbacks({ also: [callback] }) });
  await ring.averageVariables(model); // the moving statistics of batch norm
  await ring.verifyReplicas(model);

  const { steps, bytesSent, denseBytes } = optimizer.statistics;
  const parameters = model.countParams();
  const result = { ...imageScore(tf, model, test), steps, bytesSent, denseBytes, parameters };
  optimizer.dispose();
  model.dispose();
  return result;
}

module.exports = { name: 'resnet', prepare, train };

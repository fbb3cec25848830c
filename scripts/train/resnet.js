#!/usr/bin/env node
// A ResNet as in section 4.1 of the paper on Deep Gradient Compression: SGD with momentum, weight decay, a warm-up of
// four epochs. --help says where it differs.
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { loadCifar10 } = require('./data/cifar10');
const { augmentedBatches, imagesOf, wholeSet } = require('./data/image-batches');
const { loadShippedDigits } = require('./data/optdigits');
const { syntheticImages } = require('./data/synthetic-images');
const { progress } = require('./progress');
const { resnet } = require('./resnet-model');
const { runExample } = require('./run-example');

const options = yargs(process.argv.slice(2))
  .scriptName('resnet.js')
  .usage('$0 [options]\n\nTrains a ResNet with Deep Gradient Compression.')
  .option('data-dir', {
    type: 'string',
    describe: 'cifar-10-batches-bin, the binary version of CIFAR-10 [default: the digits of the package]',
  })
  .option('synthetic', {
    type: 'number',
    requiresArg: true,
    conflicts: 'data-dir',
    describe: 'train on so many generated images of the size of CIFAR-10',
  })
  .option('depth', { type: 'number', default: 8, describe: 'of the ResNet, 6n + 2; the paper has 110' })
  .option('epochs', { type: 'number', default: 20, describe: 'the paper has 164' })
  .option('batch-size', { type: 'number', default: 16, describe: 'images for each rank and step' })
  .option('learning-rate', {
    type: 'number',
    default: 0.1,
    describe: 'the first learning rate; a tenth of it after half of the epochs, a hundredth after three quarters',
  })
  .option('weight-decay', { type: 'number', default: 1e-4 })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .check(({ depth, synthetic = 1 }) => {
    if (!(depth >= 8 && depth % 6 === 2)) return 'depth must be 6n + 2: 8, 14, 20 …';
    return (Number.isInteger(synthetic) && synthetic > 0) || 'synthetic must be a number of images.';
  })
  .example('npx gradring run -n 2 $0', 'two ranks, a small ResNet, real digits')
  .example(
    'npx gradring run -n 4 $0 --depth 110 --epochs 164 --batch-size 32 --data-dir cifar-10-batches-bin',
    'as in the paper',
  )
  .epilogue(
    'Differs from the paper: where the number of channels doubles, the shortcut is a convolution. The learning rate is not lower in the warm-up. The digits are not mirrored.',
  )
  .strict()
  .parseSync();

async function main() {
  const { depth, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const { train, test, source, augmentation } = loadImages(tf);
  say(`Data: ${source}`);

  const model = resnet(tf, { depth, seed, imageShape: train.shape });
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), {
    compression: compressionOf(options.compression),
    weightDecay: options.weightDecay,
  });
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  say(`ResNet-${depth}: ${model.countParams().toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const decay = {
    onEpochBegin(epoch) {
      const drops = Number(epoch >= epochs / 2) + Number(epoch >= (epochs * 3) / 4);
      optimizer.learningRate = options.learningRate / 10 ** drops;
    },
  };
  const steps = Math.ceil(Math.floor(train.labels.length / batchSize) / ring.worldSize);
  const accuracy = logs => `accuracy ${(logs.acc * 100).toFixed(1)} %`;
  const bar = progress(ring, { optimizer, epochs, steps, unit: 'images', unitsAStep: batchSize, describe: accuracy });
  await model.fitDataset(ring.shard(augmentedBatches(tf, train, { batchSize, seed, ...augmentation })), {
    epochs,
    verbose: 0,
    callbacks: ring.callbacks({ also: [decay, bar] }),
  });

  await ring.averageVariables(model); // the moving statistics of batch norm
  const { xs, ys } = wholeSet(tf, test);
  const [, tested] = /** @type {import('@tensorflow/tfjs').Scalar[]} */ (model.evaluate(xs, ys, { batchSize: 128 }));
  const hash = await ring.verifyReplicas(model);
  say(
    `test accuracy ${(tested.dataSync()[0] * 100).toFixed(1)} %; ${bar.sent()}; weights ${hash.slice(0, 8)} on all ranks`,
  );
  await ring.close();
}

function loadImages(tf) {
  const { dataDir, synthetic, seed } = options;
  if (dataDir === undefined && synthetic === undefined) {
    const { train, test, source } = loadShippedDigits(tf);
    // A mirrored digit would be no digit.
    return {
      train: imagesOf(tf, train),
      test: imagesOf(tf, test),
      source,
      augmentation: { padding: 1, mirrors: false },
    };
  }
  const augmentation = { padding: 4, mirrors: true };
  if (dataDir !== undefined) return { ...loadCifar10(dataDir), source: `CIFAR-10 in ${dataDir}`, augmentation };
  const source = 'synthetic images, not CIFAR-10';
  return { ...syntheticImages({ trainCount: synthetic, testCount: 256, seed }), source, augmentation };
}

runExample(main);

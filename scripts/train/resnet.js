#!/usr/bin/env node
// ResNet-20, -56 or -110 for CIFAR-10: npx gradring run -n 4 scripts/train/resnet.js --data-dir cifar-10-batches-bin
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { loadCifar10 } = require('./data/cifar10');
const { augmentedBatches, wholeSet } = require('./data/image-batches');
const { syntheticImages } = require('./data/synthetic-images');
const { progress, sent } = require('./progress');
const { resnet } = require('./resnet-model');
const { runExample } = require('./run-example');

const options = yargs(process.argv.slice(2))
  .scriptName('resnet.js')
  .usage('$0 [options]\n\nTrains a ResNet for CIFAR-10 with Deep Gradient Compression.')
  .option('data-dir', {
    type: 'string',
    describe: 'cifar-10-batches-bin, the binary version of CIFAR-10 [default: synthetic images]',
  })
  .option('depth', { type: 'number', choices: [20, 56, 110], default: 20 })
  .option('epochs', { type: 'number', default: 3 })
  .option('batch-size', { type: 'number', default: 32, describe: 'images for each rank and step' })
  .option('learning-rate', {
    type: 'number',
    default: 0.1,
    describe: 'the first learning rate; a tenth of it after half of the epochs, a hundredth after three quarters',
  })
  .option('train-images', { type: 'number', default: 1024, describe: 'how many synthetic images to train on' })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .example('npx gradring run -n 2 $0', 'two ranks, synthetic images')
  .example('npx gradring run -n 4 $0 --depth 110 --epochs 164 --data-dir cifar-10-batches-bin', 'as in the paper')
  .strict()
  .parseSync();

async function main() {
  const { dataDir, depth, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const { train, test } =
    dataDir === undefined
      ? syntheticImages({ trainCount: options.trainImages, testCount: 256, seed })
      : loadCifar10(dataDir);
  say(
    dataDir === undefined ? 'Data: synthetic images, not CIFAR-10 (pass --data-dir)' : `Data: CIFAR-10 in ${dataDir}`,
  );

  const model = resnet(tf, { depth, seed });
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), {
    compression: compressionOf(options.compression),
  });
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  say(`ResNet-${depth}: ${model.countParams().toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const decay = {
    onEpochBegin(epoch) {
      const drops = (epoch >= epochs / 2) + (epoch >= (epochs * 3) / 4);
      optimizer.learningRate = options.learningRate / 10 ** drops;
    },
  };
  const steps = Math.ceil(Math.floor(train.labels.length / batchSize) / ring.worldSize);
  const accuracy = logs => `accuracy ${(logs.acc * 100).toFixed(1)} %`;
  const bar = progress(ring, { epochs, steps, unit: 'images', unitsAStep: batchSize, describe: accuracy });
  await model.fitDataset(ring.shard(augmentedBatches(tf, train, { batchSize, seed })), {
    epochs,
    verbose: 0,
    callbacks: ring.callbacks({ also: [decay, bar] }),
  });

  const { xs, ys } = wholeSet(tf, test);
  const [, tested] = model.evaluate(xs, ys, { batchSize: 128 });
  const hash = await ring.verifyReplicas(model);
  say(
    `test accuracy ${(tested.dataSync()[0] * 100).toFixed(1)} %; ${sent(optimizer.statistics)}; weights ${hash.slice(0, 8)} on all ranks`,
  );
  await ring.close();
}

runExample(main);

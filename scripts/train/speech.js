#!/usr/bin/env node
// Speech recognition in the shape of Deep Speech, with CTC: npx gradring run -n 2 scripts/train/speech.js
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { DataError } = require('./data/files');
const { BANDS } = require('./data/filter-bank');
const { loadLibriSpeech } = require('./data/libri-speech');
const { syntheticUtterances } = require('./data/utterances');
const { progress } = require('./progress');
const { runExample } = require('./run-example');
const { speechModel } = require('./speech-model');
const { evaluate, stepsOf, train } = require('./speech-training');

const options = yargs(process.argv.slice(2))
  .scriptName('speech.js')
  .usage(
    '$0 [options]\n\nTrains a speech recognizer (convolution, bidirectional GRU, CTC) with Deep Gradient Compression.',
  )
  .option('data-dir', {
    type: 'string',
    describe:
      'a folder in the format of LibriSpeech: <speaker>/<chapter>/<id>.wav or .flac [default: synthetic utterances]',
  })
  .option('utterances', { type: 'number', default: 4096, describe: 'the most utterances to train on' })
  .option('filters', { type: 'number', default: 96, describe: 'filters of the convolution' })
  .option('units', { type: 'number', default: 64, describe: 'units of each direction of a layer; the paper has 1200' })
  .option('layers', { type: 'number', default: 2, describe: 'bidirectional GRU layers; the paper has 7' })
  .option('epochs', { type: 'number', default: 5, describe: 'the paper has 80' })
  .option('batch-size', { type: 'number', default: 8, describe: 'utterances for each rank and step' })
  .option('learning-rate', { type: 'number', default: 0.02, describe: 'in the first epoch' })
  .option('decay', { type: 'number', default: 1.25, describe: 'the learning rate is divided by this after each epoch' })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .check((/** @type {any} */ { utterances, filters, units, layers, epochs, batchSize, learningRate, decay }) => {
    const counts = [utterances, filters, units, layers, epochs, batchSize];
    if (counts.every(count => Number.isInteger(count) && count > 0) && learningRate > 0 && decay > 0) return true;
    throw new Error('--learning-rate and --decay take positive numbers, the other numbers are whole, 1 or more.');
  })
  .example('npx gradring run -n 4 $0', 'four ranks, synthetic utterances')
  .example('npx gradring run -n 4 $0 --compression none', 'the same without compression')
  .example(
    'npx gradring run -n 4 $0 --data-dir LibriSpeech/train-clean-100 --utterances 30000 --units 800 --layers 5',
    'real speech, a larger model',
  )
  .epilogue(
    'The paper on Deep Gradient Compression trains Deep Speech 2 on LibriSpeech for 80 epochs: a stack of convolutions, then 7 bidirectional GRU layers of 1200 units. Differs from it: there is one convolution, and the learning rate is not lower in the warm-up. As in the paper, the momentum is that of Nesterov, gradients are clipped, the learning rate falls after each epoch, and the warm-up has one epoch; the clip norm of 10 and the learning rate are choices of this program.',
  )
  .strict()
  .parseSync();

async function main() {
  const { dataDir, filters, units, layers, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const isOwn = i => i % ring.worldSize === ring.rank;
  const data =
    dataDir === undefined
      ? syntheticUtterances({ trainCount: options.utterances, testCount: 256, seed })
      : await loadLibriSpeech(tf, dataDir, {
          trainCount: options.utterances,
          testCount: 256,
          isOwn,
        });
  say(`Data: ${data.source}; ${data.train.length} to train on, ${data.test.length} to test`);
  const steps = stepsOf(data.train, ring, batchSize);
  if (steps === 0)
    throw new DataError(`${data.train.length} utterances are too few for a batch of ${batchSize} on each rank.`);
  const own = data.train.filter((_, i) => isOwn(i));

  const model = speechModel(tf, { features: BANDS, filters, units, layers, classes: data.symbols.length + 1, seed });
  await ring.broadcastVariables(model.variables);
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9, true), {
    compression: compressionOf(options.compression, { clipNorm: 10, warmUpSteps: steps }), // an epoch, as in the paper
  });
  const parameters = model.variables.reduce((count, { size }) => count + size, 0);
  say(`Deep Speech: ${parameters.toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const bar = progress(ring, { optimizer, epochs, steps, unit: 'utterances', unitsAStep: batchSize });
  await train(tf, {
    model,
    optimizer,
    utterances: own,
    epochs,
    steps,
    batchSize,
    decay: options.decay,
    seed,
    callbacks: bar,
  });

  const { errorRate, loss } = await evaluate(tf, ring, model, data.test, batchSize);
  const hash = await ring.verifyReplicas(model.variables);
  say(
    `test label error rate ${(errorRate * 100).toFixed(1)} %, loss ${loss.toFixed(2)}; ${bar.sent()}; weights ${hash.slice(0, 8)} on all ranks`,
  );
  await ring.close();
}

runExample(main);

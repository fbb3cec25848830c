#!/usr/bin/env node
// A small transformer language model with its own training loop: npx gradring run -n 2 scripts/train/transformer.js
// The paper on Deep Gradient Compression has no transformer. As for its language model, gradients are clipped, and the
// warm-up has one epoch; unlike there, SGD has momentum, and the learning rate stays as it is.
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { loadText, rowsOf, shuffledBatches, TEXT_OPTIONS } = require('./data/words');
const { progress } = require('./progress');
const { runExample } = require('./run-example');
const { transformer } = require('./transformer-model');

const options = yargs(process.argv.slice(2))
  .scriptName('transformer.js')
  .usage('$0 [options]\n\nTrains a small transformer language model with Deep Gradient Compression.')
  .options(TEXT_OPTIONS)
  .option('width', { type: 'number', default: 64 })
  .option('heads', { type: 'number', default: 4 })
  .option('layers', { type: 'number', default: 2 })
  .option('vocabulary', { type: 'number', default: 1000, describe: 'how many words have a number' })
  .option('epochs', { type: 'number', default: 8 })
  .option('batch-size', { type: 'number', default: 8, describe: 'rows for each rank and step' })
  .option('learning-rate', { type: 'number', default: 0.3 })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .check(({ width, heads }) => width % heads === 0 || 'heads must divide width.')
  .example('npx gradring run -n 2 $0', 'two ranks')
  .epilogue(
    'The paper on Deep Gradient Compression has no transformer. As for its language model, gradients are clipped, and the warm-up has one epoch; unlike there, SGD has momentum, and the learning rate stays as it is.',
  )
  .strict()
  .parseSync();

async function main() {
  const { dataDir, vocabulary, length, rows, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const corpus = loadText(dataDir, vocabulary);
  say(`Data: ${corpus.source}; ${corpus.train.length.toLocaleString('en')} words`);
  const train = ring.shard(...rowsOf(tf, corpus.train, { length, rows }));

  const { variables, loss } = transformer(tf, { ...options, words: corpus.vocabulary.length });
  await ring.broadcastVariables(variables);
  const steps = Math.floor(train[0].shape[0] / batchSize);
  // A warm-up of one epoch.
  const compression = compressionOf(options.compression, { clipNorm: 1, warmUpSteps: steps });
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), { compression });
  const parameters = variables.reduce((count, { size }) => count + size, 0);
  say(`Transformer: ${parameters.toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const describe = logs => `perplexity ${Math.exp(logs.loss).toFixed(1)}`;
  const bar = progress(ring, { optimizer, epochs, steps, unit: 'words', unitsAStep: batchSize * length, describe });
  for (let epoch = 0; epoch < epochs; epoch++) {
    bar.onEpochBegin(epoch);
    let sum = 0;
    let step = 0;
    for (const batch of shuffledBatches(tf, train, { batchSize, seed: `${seed} rank ${ring.rank} epoch ${epoch}` })) {
      const cost = await optimizer.minimizeAsync(() => loss(...batch), true);
      sum += (await cost.data())[0];
      cost.dispose();
      bar.onBatchEnd(step++);
    }
    bar.onEpochEnd(epoch, { loss: sum / steps });
  }

  const tested = loss(...rowsOf(tf, corpus.test, { length, rows: 64 })).dataSync()[0];
  const hash = await ring.verifyReplicas(variables);
  say(`test perplexity ${Math.exp(tested).toFixed(1)}; ${bar.sent()}; weights ${hash.slice(0, 8)} on all ranks`);
  await ring.close();
}

runExample(main);

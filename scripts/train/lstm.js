#!/usr/bin/env node
// A word-level language model as in section 4.1 of the paper on Deep Gradient Compression: LSTM layers with tied
// weights, SGD without momentum, clipping, a learning rate that falls when the validation loss does not, a warm-up of
// one epoch. --help says where it differs.
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { loadText, rowsOf, shuffledBatches, TEXT_OPTIONS } = require('./data/words');
const { lstm } = require('./lstm-model');
const { progress } = require('./progress');
const { runExample } = require('./run-example');

const CLIP_NORM = 0.25;
/** What the learning rate is divided by when the validation loss has not fallen. */
const DECAY = 4;

const options = yargs(process.argv.slice(2))
  .scriptName('lstm.js')
  .usage('$0 [options]\n\nTrains an LSTM language model with Deep Gradient Compression.')
  .options(TEXT_OPTIONS)
  .option('units', {
    type: 'number',
    default: 64,
    describe: 'the size of the embedding and of each layer; the paper has 1500',
  })
  .option('layers', { type: 'number', default: 2 })
  .option('vocabulary', {
    type: 'number',
    default: 1000,
    describe: 'how many words have a number; the paper has 10000',
  })
  .option('epochs', { type: 'number', default: 8, describe: 'the paper has 40' })
  .option('batch-size', { type: 'number', default: 8, describe: 'rows for each rank and step' })
  .option('learning-rate', {
    type: 'number',
    default: 20,
    describe: 'the first one; a quarter when the validation loss has not fallen',
  })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .example('npx gradring run -n 2 $0', 'two ranks, a small model')
  .example(
    'npx gradring run -n 4 $0 --units 1500 --vocabulary 10000 --length 35 --rows 1e9 --epochs 40 --data-dir ptb',
    'the sizes of the paper',
  )
  .epilogue(
    'Differs from the paper: the learning rate is not lower in the warm-up; there is no dropout; rows are shuffled, and the state is zero before each, where the paper carries it on. The paper does not give the clip norm, nor by what the learning rate is divided: 0.25 and 4 are choices of this program.',
  )
  .strict()
  .parseSync();

async function main() {
  const { dataDir, units, layers, vocabulary, length, rows, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const corpus = loadText(dataDir, vocabulary);
  say(`Data: ${corpus.source}; ${corpus.train.length.toLocaleString('en')} words`);
  const train = ring.shard(...rowsOf(tf, corpus.train, { length, rows }));
  const valid = ring.shard(...rowsOf(tf, corpus.valid, { length, rows: 512 }));

  const { variables, loss, test } = lstm(tf, { words: corpus.vocabulary.length, units, layers, seed });
  await ring.broadcastVariables(variables);
  const steps = Math.floor(train[0].shape[0] / batchSize);
  // A warm-up of one epoch.
  const compression = compressionOf(options.compression, { clipNorm: CLIP_NORM, warmUpSteps: steps });
  const optimizer = ring.wrap(tf.train.sgd(options.learningRate), { compression });
  const parameters = variables.reduce((count, { size }) => count + size, 0);
  say(`LSTM: ${parameters.toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const describe = logs =>
    `perplexity ${Math.exp(logs.loss).toFixed(1)}, validation ${Math.exp(logs.valid).toFixed(1)}, learning rate ${optimizer.learningRate}`;
  const bar = progress(ring, { optimizer, epochs, steps, unit: 'words', unitsAStep: batchSize * length, describe });
  let best = Infinity;
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
    // Each rank validates its own rows. All have the same mean then, and so the same learning rate.
    const [validLoss] = await ring.allReduce(Float32Array.of(mean(test(...valid))), { op: 'mean' });
    bar.onEpochEnd(epoch, { loss: sum / steps, valid: validLoss });
    if (validLoss >= best) optimizer.learningRate /= DECAY;
    best = Math.min(best, validLoss);
  }

  const tested = mean(test(...rowsOf(tf, corpus.test, { length, rows: 512 })));
  const hash = await ring.verifyReplicas(variables);
  say(`test perplexity ${Math.exp(tested).toFixed(1)}; ${bar.sent()}; weights ${hash.slice(0, 8)} on all ranks`);
  await ring.close();
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;

runExample(main);

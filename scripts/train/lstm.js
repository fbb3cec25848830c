#!/usr/bin/env node
// A word-level language model like the one for the Penn Treebank: two LSTM layers over embeddings (Zaremba et al.,
// 2014).
const yargs = require('yargs');
const { connect, loadBackend } = require('../..');
const { COMPRESSION_OPTION, compressionOf } = require('./compressions');
const { loadTensorFlowSource, loadPennTreebank, rowsOf } = require('./data/words');
const { progress, sent } = require('./progress');
const { runExample } = require('./run-example');

const options = yargs(process.argv.slice(2))
  .scriptName('lstm.js')
  .usage('$0 [options]\n\nTrains an LSTM language model with Deep Gradient Compression.')
  .option('data-dir', {
    type: 'string',
    describe: 'a folder with ptb.train.txt and ptb.test.txt [default: the source text of TensorFlow.js]',
  })
  .option('units', {
    type: 'number',
    default: 96,
    describe: 'the size of the embedding and of each layer; the paper has 1500',
  })
  .option('vocabulary', {
    type: 'number',
    default: 2000,
    describe: 'how many words have a number; the paper has 10000',
  })
  .option('length', { type: 'number', default: 20, describe: 'words in a row' })
  .option('rows', { type: 'number', default: 2048, describe: 'the most rows of the text to train on' })
  .option('epochs', { type: 'number', default: 2 })
  .option('batch-size', { type: 'number', default: 32, describe: 'rows for each rank and step' })
  .option('learning-rate', { type: 'number', default: 0.5 })
  .option('compression', COMPRESSION_OPTION)
  .option('seed', { type: 'number', default: 1 })
  .example('npx gradring run -n 2 $0', 'two ranks, a small model')
  .example(
    'npx gradring run -n 4 $0 --units 1500 --vocabulary 10000 --length 35 --rows 1e9 --data-dir ptb',
    'the sizes of the paper',
  )
  .strict()
  .parseSync();

async function main() {
  const { dataDir, units, vocabulary, length, rows, epochs, batchSize, seed } = options;
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf } = await loadBackend({ log: say });
  const corpus = dataDir === undefined ? loadTensorFlowSource(vocabulary) : loadPennTreebank(dataDir, vocabulary);
  say(`Data: ${corpus.source}; ${corpus.train.length.toLocaleString('en')} words`);
  const [x, y] = ring.shard(...rowsOf(tf, corpus.train, { length, rows }));

  const model = languageModel(tf, { units, words: corpus.vocabulary.length, length, seed });
  const compression = compressionOf(options.compression, { clipNorm: 0.25 });
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), { compression });
  model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy' });
  say(`LSTM: ${model.countParams().toLocaleString('en')} parameters, ${ring.worldSize} ranks`);

  const steps = Math.ceil(x.shape[0] / batchSize);
  const perplexity = logs => `perplexity ${Math.exp(logs.loss).toFixed(1)}`;
  const bar = progress(ring, { epochs, steps, unit: 'words', unitsAStep: batchSize * length, describe: perplexity });
  await model.fit(x, y, { epochs, batchSize, verbose: 0, callbacks: ring.callbacks({ also: [bar] }) });

  const loss = model.evaluate(...rowsOf(tf, corpus.test, { length, rows: 256 }), { batchSize }).dataSync()[0];
  const hash = await ring.verifyReplicas(model);
  say(
    `test perplexity ${Math.exp(loss).toFixed(1)}; ${sent(optimizer.statistics)}; weights ${hash.slice(0, 8)} on all ranks`,
  );
  await ring.close();
}

function languageModel(tf, { units, words, length, seed }) {
  const uniform = layer => tf.initializers.randomUniform({ minval: -0.05, maxval: 0.05, seed: seed * 100 + layer });
  const lstm = layer =>
    tf.layers.lstm({
      units,
      returnSequences: true,
      kernelInitializer: uniform(layer),
      recurrentInitializer: uniform(layer + 10),
    });
  return tf.sequential({
    layers: [
      tf.layers.embedding({
        inputDim: words,
        outputDim: units,
        inputLength: length,
        embeddingsInitializer: uniform(1),
      }),
      lstm(2),
      lstm(3),
      tf.layers.dense({ units: words, activation: 'softmax', kernelInitializer: uniform(4) }),
    ],
  });
}

runExample(main);

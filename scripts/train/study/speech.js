// The study's speech model: synthetic utterances, a small Deep Speech.
const { BANDS } = require('../data/filter-bank');
const { loadLibriSpeech } = require('../data/libri-speech');
const { syntheticUtterances } = require('../data/utterances');
const { speechModel } = require('../speech-model');
const { evaluate, stepsOf, train } = require('../speech-training');

/** What is read, the model, and the training, which reports so many times. */
const FULL = { trainCount: 4096, testCount: 4096, filters: 96, units: 64, layers: 2, batchSize: 8, epochs: 5, reports: 25 }; // prettier-ignore
const QUICK = { trainCount: 128, testCount: 32, filters: 32, units: 24, layers: 1, batchSize: 4, epochs: 2, reports: 4 }; // prettier-ignore
const DECAY = 1.25;
/** On how many of the utterances for testing a training reports. */
const REPORTED_UTTERANCES = 128;
/** The data are the same in all trainings that count. */
const DATA_SEED = 3;
/** Learning rates are tried on others. */
const TUNING_SEED = 4;
const TUNING_COUNT = 1024;

function synthetic(sizes) {
  const testCount = Math.min(sizes.testCount, TUNING_COUNT);
  const tuning = syntheticUtterances({ ...sizes, testCount, seed: TUNING_SEED });
  return { ...syntheticUtterances({ ...sizes, seed: DATA_SEED }), tuning };
}

/** All ranks read all utterances. */
async function ofLibriSpeech(tf, directory, { trainCount, testCount }) {
  const most = Math.min(testCount, TUNING_COUNT);
  const count = testCount + most;
  const all = await loadLibriSpeech(tf, directory, { trainCount, testCount: count, isOwn: () => true });
  const tuningCount = Math.min(most, Math.floor(all.test.length / 2));
  const tuning = { train: all.train, test: all.test.slice(0, tuningCount) };
  return { ...all, tuning, test: all.test.slice(tuningCount) };
}

/** With as many digits as the statistics need: there are thousands of examples in each training. */
const short = errorRate => Number(errorRate.toFixed(5));

module.exports = {
  name: 'speech',

  async prepare(tf, { quick, dataDir, worldSize }) {
    const sizes = quick ? QUICK : FULL;
    const utterances = dataDir === undefined ? synthetic(sizes) : await ofLibriSpeech(tf, dataDir, sizes);
    const { source, train, test } = utterances;
    const steps = sizes.epochs * stepsOf(train, { worldSize }, sizes.batchSize);
    return { ...utterances, sizes, steps, data: `${source}; ${train.length} to train on, ${test.length} to test` };
  },

  async train(prepared, { tf, ring, part, wrapped, isTuning, learningRate, seed, report }) {
    const { filters, units, layers, batchSize, epochs, reports } = prepared.sizes;
    const classes = prepared.symbols.length + 1;
    const model = speechModel(tf, { features: BANDS, filters, units, layers, classes, seed });
    const optimizer = wrapped(tf.train.momentum(learningRate, 0.9, true));
    const data = isTuning ? prepared.tuning : prepared;
    const { test } = data;
    const steps = stepsOf(data.train, ring, batchSize);
    const interval = Math.max(1, Math.round((epochs * steps) / reports));
    let step = 0;
    let losses = [];
    const onBatchEnd = async (_step, { loss }) => {
      step++;
      losses.push(loss);
      if (step % interval !== 0) return;
      const mean = Float64Array.of(losses.reduce((sum, each) => sum + each, 0) / losses.length);
      losses = [];
      await ring.allReduce(mean, { op: 'mean' });
      const { errorRate } = await evaluate(tf, ring, model, test.slice(0, REPORTED_UTTERANCES), batchSize);
      report({ step, loss: mean[0], error: errorRate, bytes: optimizer.statistics.bytesSent });
    };
    try {
      const utterances = data.train.filter((_, i) => i % ring.worldSize === part);
      await train(tf, { model, optimizer, utterances, epochs, steps, batchSize, decay: DECAY, seed, callbacks: { onBatchEnd } }); // prettier-ignore
      const { errorRate, loss, errorRates } = await evaluate(tf, ring, model, test, batchSize);
      await ring.verifyReplicas(model.variables);
      const { bytesSent, denseBytes } = optimizer.statistics;
      const parameters = model.variables.reduce((sum, { size }) => sum + size, 0);
      const examples = errorRates.map(short);
      return { score: errorRate, logLoss: loss, steps: step, bytesSent, denseBytes, parameters, examples };
    } finally {
      tf.dispose(model.variables);
    }
  },
};

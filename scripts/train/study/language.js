// A language model for `gradring study`: that of lstm.js, with a fixed number of steps. The learning rate falls after
// fixed steps, not by the validation loss, so that all methods have the same.
const { lstm } = require('../lstm-model');
const { loadText, rowsOf, shuffledBatches } = require('../data/words');

const FULL = { vocabulary: 1000, units: 64, length: 16, rows: 9600, testRows: 2048, steps: 1500 };
const QUICK = { vocabulary: 200, units: 16, length: 8, rows: 960, testRows: 128, steps: 40 };
/** The rows of a step, of all ranks together. */
const STEP_ROWS = 32;
const REPORTS = 30;
/** How many rows of the test set a report tests. */
const REPORTED_ROWS = 128;

/** Reads the text. Returns what {@link train} needs. `others` are sizes that another workload has. */
function prepare(tf, { quick, dataDir, worldSize }, others = {}) {
  const sizes = { ...(quick ? QUICK : FULL), ...others };
  const { vocabulary } = sizes;
  const batchSize = Math.max(1, Math.floor(STEP_ROWS / worldSize));
  const corpus = loadText(dataDir, vocabulary);
  const trainRows = rowsOf(tf, corpus.train, sizes);
  const testRows = rowsOf(tf, corpus.test, { ...sizes, rows: sizes.testRows });
  const tuningRows = rowsOf(tf, corpus.valid, { ...sizes, rows: sizes.testRows });
  const [count, testCount] = [trainRows, testRows].map(([x]) => x.shape[0]);
  const data = `${corpus.source}: ${count} rows of ${sizes.length} words, ${testCount} for testing`;
  return { ...sizes, batchSize, data, trainRows, testRows, tuningRows };
}

async function train(prepared, { tf, ring, part, wrapped, isTuning, learningRate, seed, report }) {
  const { vocabulary, units, batchSize, steps, momentum, trainRows } = prepared;
  const testRows = isTuning ? prepared.tuningRows : prepared.testRows;
  const rows = trainRows.map(tensor => rowsOfPart(tf, tensor, part, ring.worldSize));
  const someTestRows = testRows.map(tensor => tensor.slice(0, REPORTED_ROWS));
  const { variables, loss, test } = lstm(tf, { words: vocabulary, units, seed });
  const optimizer = wrapped(
    momentum === undefined ? tf.train.sgd(learningRate) : tf.train.momentum(learningRate, momentum),
  );

  let step = 0;
  let sum = 0;
  let summed = 0;
  for (const batch of endlessBatches(tf, rows, { batchSize, seed: `${seed} rank ${part}` })) {
    optimizer.learningRate = learningRateAt(step / steps, learningRate);
    const cost = await optimizer.minimizeAsync(() => loss(...batch), true);
    sum += (await cost.data())[0];
    cost.dispose();
    step++;
    summed++;
    if (step % Math.ceil(steps / REPORTS) === 0 || step === steps) {
      const { bytesSent } = optimizer.statistics;
      report({ step, loss: sum / summed, error: Math.exp(mean(test(...someTestRows))), bytes: bytesSent });
      [sum, summed] = [0, 0];
    }
    if (step === steps) break;
  }
  await optimizer.synchronize();
  await ring.verifyReplicas(variables);

  const examples = test(...testRows);
  const logLoss = mean(examples);
  const { bytesSent, denseBytes } = optimizer.statistics;
  const parameters = variables.reduce((sum, { size }) => sum + size, 0);
  tf.dispose([rows, someTestRows, variables]);
  return { score: Math.exp(logLoss), logLoss, steps, bytesSent, denseBytes, parameters, examples };
}

/** A quarter of the first one after half of the training, a sixteenth after three quarters. */
const learningRateAt = (done, first) => first / 4 ** (Number(done >= 0.5) + Number(done >= 0.75));

/** Rows part, part + parts, and so on: as many in each part. */
function rowsOfPart(tf, tensor, part, parts) {
  const count = Math.floor(tensor.shape[0] / parts);
  const rows = Int32Array.from({ length: count }, (_, i) => part + i * parts);
  return tf.tidy(() => tensor.gather(tf.tensor1d(rows, 'int32')));
}

function* endlessBatches(tf, rows, { batchSize, seed }) {
  for (let epoch = 0; ; epoch++) yield* shuffledBatches(tf, rows, { batchSize, seed: `${seed} epoch ${epoch}` });
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;

module.exports = { name: 'language', prepare, train };

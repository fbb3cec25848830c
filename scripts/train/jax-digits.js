#!/usr/bin/env node
// Trains digits with jax-js (https://jax-js.com) instead of TensorFlow.js, through gradring/core: jax-js computes the
// gradients, gradring the mean update of all ranks, and the program applies it.
const seedrandom = require('seedrandom');
const yargs = require('yargs');
const { connect, dgc, lowRank, noCompression } = require('../../dist/core');
const { readShippedDigits } = require('./data/optdigits');
const { shuffled } = require('./data/shuffled');
const { runExample } = require('./run-example');

const [PIXELS, CLASSES] = [64, 10];
const COMPRESSIONS = { dgc: steps => dgc({ steps }), 'low-rank': () => lowRank(), none: () => noCompression() };

const options = yargs(process.argv.slice(2))
  .scriptName('jax-digits.js')
  .usage('$0 [options]\n\nTrains a network of two layers on real digits with jax-js: npm install @jax-js/jax.')
  .option('epochs', { type: 'number', default: 10 })
  .option('batch-size', { type: 'number', default: 32, describe: 'rows for each rank and step' })
  .option('units', { type: 'number', default: 64, describe: 'the size of the hidden layer' })
  .option('learning-rate', { type: 'number', default: 0.1 })
  .option('compression', { choices: Object.keys(COMPRESSIONS), default: 'dgc' })
  .strict()
  .parseSync();

/** jax-js is no dependency of gradring: the project that trains with it has it. */
function loadJax() {
  const name = '@jax-js/jax'; // not written into the call, so that a type check does not want the package
  try {
    return require(name);
  } catch {
    console.error(`${name} is not installed: npm install ${name}`);
    process.exit(1);
  }
}

async function main() {
  const jax = loadJax();
  const { numpy: np, nn } = jax;
  jax.defaultDevice((await jax.init('wasm'))[0]);
  const ring = await connect();
  const { epochs, batchSize, units, learningRate } = options;
  const { train, test, source } = readShippedDigits();
  if (ring.rank === 0) console.log(`Data: ${source}`);

  const shapes = { w1: [PIXELS, units], b1: [units], w2: [units, CLASSES], b2: [CLASSES] };
  const names = Object.keys(shapes);
  // Arrays of jax-js never change, so the weights are typed arrays, from which each step makes arrays.
  const weights = Object.fromEntries(names.map(name => [name, initial(shapes[name])]));
  await ring.broadcastVariables(weights); // all ranks begin with the weights of rank 0
  const parameters = () =>
    Object.fromEntries(names.map(name => [name, np.array(weights[name], { shape: shapes[name] })]));

  /** @param {Record<string, any>} network Its arrays are used up, as by all operations of jax-js. */
  const logits = ({ w1, b1, w2, b2 }, x) => np.matmul(nn.relu(np.matmul(x, w1).add(b1)), w2).add(b2);
  const loss = (network, x, y) =>
    nn
      .logSoftmax(logits(network, x))
      .mul(y)
      .sum()
      .mul(-1 / batchSize);
  const gradientOf = jax.jit(jax.valueAndGrad(loss));

  // Each rank takes every N-th row, so it has rows that no other rank has.
  const rows = [...train.classes.keys()].filter(row => row % ring.worldSize === ring.rank);
  const stepsPerEpoch = Math.floor(train.classes.length / ring.worldSize / batchSize);
  const compression = COMPRESSIONS[options.compression](epochs * stepsPerEpoch);
  const gradients = ring.gradients(shapes, { momentum: 0.9, compression });

  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = shuffled(rows.length, seedrandom(`epoch ${epoch}`));
    let sum = 0;
    for (let step = 0; step < stepsPerEpoch; step++) {
      const batch = Array.from(order.subarray(step * batchSize, (step + 1) * batchSize), i => rows[i]);
      const x = np.array(batch.map(row => train.pixels[row]));
      const y = nn.oneHot(np.array(batch.map(row => train.classes[row]), { dtype: np.int32 }), CLASSES); // prettier-ignore
      const [value, grads] = gradientOf(parameters(), x, y);
      sum += (await value.data())[0];
      const own = Object.fromEntries(await Promise.all(names.map(async name => [name, await grads[name].data()])));
      const updates = await gradients.step(own);
      for (const name of names) updates[name].forEach((update, i) => (weights[name][i] -= learningRate * update));
    }
    if (ring.rank === 0) console.log(`epoch ${epoch + 1}: loss ${(sum / stepsPerEpoch).toFixed(4)}`);
  }

  const guesses = await np.argmax(logits(parameters(), np.array(test.pixels)), 1).data();
  const right = test.classes.filter((digit, i) => guesses[i] === digit).length;
  const hash = await ring.verifyReplicas(weights); // throws if the ranks had different weights
  const { bytesSent, denseBytes } = gradients.statistics;
  if (ring.rank === 0) {
    console.log(`test accuracy ${((100 * right) / test.classes.length).toFixed(1)} %`);
    if (bytesSent > 0) console.log(`compression ratio ${(denseBytes / bytesSent).toFixed(1)}`);
    console.log(`weights ${hash.slice(0, 8)} on all ranks`);
  }
  gradients.dispose();
  await ring.close();
}

/** Zeros for biases, else He's uniform distribution. */
function initial(shape) {
  const array = new Float32Array(shape.reduce((product, length) => product * length, 1));
  if (shape.length === 1) return array;
  const bound = Math.sqrt(6 / shape[0]);
  const random = seedrandom('weights');
  return array.map(() => bound * (2 * random() - 1));
}

runExample(main);

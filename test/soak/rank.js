// A rank of the soak: trains a small network on the digits with Deep Gradient Compression for a great many steps, and
// tells on stdout, in lines of JSON, how much memory it holds and what its weights are.
const seedrandom = require('seedrandom');
const { connect, dgc, loadBackend } = require('../..');
const { collectGarbage } = require('../../dist/memory/buffers');
const { loadShippedDigits } = require('../../scripts/train/data/optdigits');

const BATCH_ROWS = 16;
const LEARNING_RATE = 0.01;
const SPARSITY = 0.99;

const [steps, sampleEvery, verifyEvery, leakBytes] = process.argv.slice(2).map(Number);
const leaked = [];

async function main() {
  const ring = await connect();
  const { tf } = await loadBackend({ log: () => {} });
  const tell = fact => console.log(JSON.stringify({ rank: ring.rank, ...fact }));
  const [x, y] = ring.shard(...Object.values(loadShippedDigits(tf).train));
  const { model, optimizer } = prepare(tf, ring);
  await ring.broadcastVariables(model);
  const random = seedrandom(`soak ${ring.rank}`);
  for (let step = 1; step <= steps; step++) {
    const rows = tf.tensor1d(
      Array.from({ length: BATCH_ROWS }, () => Math.floor(random() * x.shape[0])),
      'int32',
    );
    tf.tidy(() => {
      const [input, wanted] = [x, y].map(all => all.gather(rows));
      optimizer.minimize(() => tf.losses.softmaxCrossEntropy(wanted, model.predict(input)));
    });
    rows.dispose();
    if (leakBytes > 0) leaked.push(Buffer.alloc(leakBytes, 1));
    if (step % sampleEvery === 0) {
      // What V8 has not collected yet comes to tens of megabytes, on one rank more than on another, and is no leak.
      collectGarbage();
      const { rss, external, heapUsed } = process.memoryUsage();
      tell({ step, rss, external, heapUsed, tensors: tf.memory().numTensors });
      await new Promise(resolve => setImmediate(resolve)); // what was told is to leave
    }
    if (step % verifyEvery === 0 || step === steps) tell({ step, hash: await ring.verifyReplicas(model) });
  }
  const { bytesSent, denseBytes } = optimizer.statistics;
  tell({ bytesSent, denseBytes });
  await ring.close();
}

function prepare(tf, ring) {
  const layer = (units, activation, inputShape) =>
    tf.layers.dense({ units, activation, ...(inputShape && { inputShape }) });
  const model = tf.sequential({
    layers: [tf.layers.flatten({ inputShape: [8, 8, 1] }), layer(128, 'relu'), layer(64, 'relu'), layer(10, 'linear')],
  });
  const compression = dgc({ sparsity: SPARSITY, warmUpSteps: 500 });
  return { model, optimizer: ring.wrap(tf.train.momentum(LEARNING_RATE, 0.9), { compression, verifyEvery: 0 }) };
}

void main();

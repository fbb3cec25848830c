#!/usr/bin/env node
// Compares short trainings with `lowRank()`, `dgc()`, which chooses its sparsity, the 99.9 % of the paper, and without
// compression: an MLP of 17,226 parameters on the digits. Prints one JSON object a line: the losses of the last epoch,
// one for each seed, and how many times fewer bytes were sent than without compression.
//   npx gradring run -n 2 --no-prefix scripts/short-trainings.js
const { connect, dgc, loadBackend, lowRank, noCompression } = require('..');
const { loadShippedDigits } = require('./train/data/optdigits');

const SEEDS = [1, 2, 3];
const EPOCHS = [2, 5, 20];
const COMPRESSIONS = {
  'no compression': noCompression,
  'lowRank()': () => lowRank(),
  'dgc()': () => dgc(),
  '99.9 %': () => dgc({ sparsity: 0.999 }),
};

async function main() {
  const { tf } = await loadBackend({ backend: 'wasm' });
  const ring = await connect();
  const { train } = loadShippedDigits(tf);
  const shard = ring.shard(train.x.reshape([train.x.shape[0], -1]), train.y);

  async function lossOf(inner, compression, { seed, epochs }) {
    const dense = (units, i, more) =>
      tf.layers.dense({ units, kernelInitializer: tf.initializers.glorotUniform({ seed: 10 * seed + i }), ...more });
    const model = tf.sequential({
      layers: [
        dense(128, 1, { inputShape: [64], activation: 'relu' }),
        dense(64, 2, { activation: 'relu' }),
        dense(10, 3, { activation: 'softmax' }),
      ],
    });
    const optimizer = ring.wrap(inner(), { compression });
    model.compile({ optimizer, loss: 'categoricalCrossentropy' });
    const options = { epochs, batchSize: 32, shuffle: false, verbose: 0, callbacks: ring.callbacks() };
    const { history } = await model.fit(...shard, options);
    const { steps, denseBytes, bytesSent } = optimizer.statistics;
    optimizer.dispose();
    return { loss: Number(history.loss.at(-1)), steps, ratio: denseBytes / bytesSent };
  }

  const optimizers = { momentum: () => tf.train.momentum(0.05, 0.9), Adam: () => tf.train.adam(0.003) };
  for (const [optimizer, inner] of Object.entries(optimizers)) {
    for (const epochs of EPOCHS) {
      for (const [name, compression] of Object.entries(COMPRESSIONS)) {
        const runs = [];
        for (const seed of SEEDS) runs.push(await lossOf(inner, compression(), { seed, epochs }));
        const [{ steps, ratio }] = runs;
        const losses = runs.map(({ loss }) => Number(loss.toFixed(3)));
        const row = { optimizer, steps, compression: name, losses, ratio: Number(ratio.toFixed(1)) };
        if (ring.rank === 0) console.log(JSON.stringify(row));
      }
    }
  }
  await ring.close();
}

main();

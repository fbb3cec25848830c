// A recurrent network that adds numbers, with model.fitDataset.
const tf = require('@tensorflow/tfjs');
const { connect } = require('gradring');

/** Initial weights that are the same on every run. */
const seed = number => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: number }) });

async function main() {
  const ring = await connect();
  const sequences = tf.randomUniform([96, 5, 1], -1, 1, 'float32', 1).arraySync();
  const sums = sequences.map(sequence => [sequence.flat().reduce((sum, value) => sum + value, 0)]);
  const dataset = tf.data.zip({ xs: tf.data.array(sequences), ys: tf.data.array(sums) }).batch(8);

  const model = tf.sequential();
  model.add(tf.layers.lstm({ inputShape: [5, 1], units: 16, ...seed(1) }));
  model.add(tf.layers.dense({ units: 1, ...seed(2) }));
  model.compile({ optimizer: ring.wrap(tf.train.momentum(0.02, 0.9)), loss: 'meanSquaredError' });

  const { history } = await model.fitDataset(ring.shard(dataset), { epochs: 6, verbose: 0, callbacks: ring.callbacks() }); // prettier-ignore
  const weights = tf.addN(model.getWeights().map(weight => weight.abs().sum()));
  console.log(JSON.stringify({ losses: [history.loss[0], history.loss.at(-1)], weights: weights.dataSync()[0] }));
}

main();

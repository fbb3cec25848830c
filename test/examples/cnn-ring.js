// A convolutional network that learns where a bright bar is, with model.fit.
const tf = require('@tensorflow/tfjs');
const { connect } = require('gradring');

/** Initial weights that are the same on every run. */
const seed = number => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: number }) });

async function main() {
  const ring = await connect();
  const rows = 64;
  const position = tf.tidy(() => tf.range(0, rows, 1, 'int32').mod(tf.scalar(4, 'int32')));
  const x = tf.tidy(() => {
    const noise = tf.randomNormal([rows, 8, 8, 1], 0, 0.3, 'float32', 1);
    const bar = tf.oneHot(position.mul(tf.scalar(2, 'int32')), 8).reshape([rows, 1, 8, 1]);
    return noise.add(bar);
  });
  const y = tf.oneHot(position, 4);

  const model = tf.sequential();
  model.add(tf.layers.conv2d({ inputShape: [8, 8, 1], filters: 8, kernelSize: 3, activation: 'relu', ...seed(1) }));
  model.add(tf.layers.batchNormalization());
  model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
  model.add(tf.layers.flatten());
  model.add(tf.layers.dense({ units: 32, activation: 'relu', ...seed(2) }));
  model.add(tf.layers.dense({ units: 4, activation: 'softmax', ...seed(3) }));
  model.compile({ optimizer: ring.wrap(tf.train.momentum(0.05, 0.9)), loss: 'categoricalCrossentropy', metrics: ['accuracy'] }); // prettier-ignore

  const { history } = await model.fit(...ring.shard(x, y), { epochs: 6, batchSize: 8, verbose: 0, callbacks: ring.callbacks() }); // prettier-ignore
  const weights = tf.addN(model.getWeights().map(weight => weight.abs().sum()));
  console.log(JSON.stringify({ losses: [history.loss[0], history.loss.at(-1)], weights: weights.dataSync()[0] }));
}

main();

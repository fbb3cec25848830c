// A custom loop with two optimizers: a generator learns to imitate points on a line, a discriminator finds imitations.
const tf = require('@tensorflow/tfjs');

/** Initial weights that are the same on every run. */
const seed = number => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: number }) });

async function main() {
  const points = tf.tidy(() => {
    const t = tf.randomUniform([256, 1], -1, 1, 'float32', 1);
    return t.concat(t.mul(2), 1);
  });
  const network = (inputs, outputs, number) =>
    tf.sequential({
      layers: [
        tf.layers.dense({ inputShape: [inputs], units: 32, activation: 'relu', ...seed(number) }),
        tf.layers.dense({ units: outputs, ...seed(number + 1) }),
      ],
    });
  const generator = network(4, 2, 1);
  const discriminator = network(2, 1, 3);
  const variables = [generator, discriminator].map(model => model.trainableWeights.map(weight => weight.read()));
  const generatorOptimizer = tf.train.adam(0.005);
  const discriminatorOptimizer = tf.train.sgd(0.02);
  const real = points;

  const loss = (model, input, isReal) =>
    tf.losses.sigmoidCrossEntropy(tf.fill([input.shape[0], 1], isReal ? 1 : 0), model.apply(input));
  const losses = [];
  for (let step = 0; step < 30; step++) {
    const noise = tf.randomNormal([real.shape[0], 4], 0, 1, 'float32', 100 + step);
    discriminatorOptimizer.minimize(
      () => loss(discriminator, real, true).add(loss(discriminator, generator.apply(noise), false)),
      false,
      variables[1],
    );
    const cost = generatorOptimizer.minimize(
      () => loss(discriminator, generator.apply(noise), true),
      true,
      variables[0],
    );
    losses.push(cost.dataSync()[0]);
    tf.dispose([noise, cost]);
  }
  const weights = tf.addN(variables.flat().map(weight => weight.abs().sum()));
  console.log(JSON.stringify({ losses: [losses[0], losses.at(-1)], weights: weights.dataSync()[0] }));
}

main();

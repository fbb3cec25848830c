const { createHash } = require('node:crypto');
const { connect, dgc, loadBackend, noCompression } = require('../../dist');
const { report } = require('./rank-report');

const ROWS = 16;

/** A model of TensorFlow.js, trained by a wrapped optimizer. */
class Workload {
  static async open(plan) {
    const { tf } = await loadBackend({ log: () => {} });
    report({ meets: true });
    return new Workload(plan, tf, await connect());
  }

  constructor({ compression }, tf, ring) {
    this.tf = tf;
    this.ring = ring;
    const layer = (units, seed, more) =>
      tf.layers.dense({ units, kernelInitializer: tf.initializers.glorotUniform({ seed }), ...more });
    this.model = tf.sequential({ layers: [layer(40, 1, { inputShape: [30], activation: 'relu' }), layer(4, 2)] });
    this.optimizer = ring.wrap(tf.train.momentum(0.05, 0.9), {
      compression: compression === 'dgc' ? dgc({ sparsity: 0.95, warmUpSteps: 10 }) : noCompression(),
    });
    this.variables = this.model.trainableWeights.map(weight => weight.read());
  }

  /** One step. Returns the SHA-256 of all weights. */
  async step(step) {
    const { tf } = this;
    tf.tidy(() => {
      const x = tf.randomNormal([ROWS, 30], 0, 1, 'float32', 1_000 * this.ring.rank + step);
      this.optimizer.minimize(() =>
        this.model
          .predict(x)
          .sub(x.slice([0, 0], [ROWS, 4]))
          .square()
          .mean(),
      );
    });
    const hash = createHash('sha256');
    for (const variable of this.variables) hash.update(variable.dataSync());
    return hash.digest('hex');
  }

  spoil() {
    const { tf } = this;
    tf.tidy(() => this.variables[0].assign(this.variables[0].add(1e-3)));
  }
}

module.exports = { Workload };

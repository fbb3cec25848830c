const { createHash } = require('node:crypto');
const { connect, dgc, loadBackend, noCompression } = require('../../dist');
const { report } = require('./rank-report');

/** A custom loop of an elastic run, which newcomers join at its commits. */
class Workload {
  static async open(plan) {
    const { tf } = await loadBackend({ backend: 'cpu', log: () => {} });
    report({ meets: true });
    const workload = new Workload(plan, tf, await connect());
    const { step } = await workload.ring.join(workload);
    workload.firstStep = step;
    return workload;
  }

  constructor({ compression, elastic, sync }, tf, ring) {
    Object.assign(this, { tf, ring, sync, commitEvery: elastic.commitEvery });
    const { rank } = ring.launched;
    this.target = tf.randomNormal([600], 0, 1, 'float32', 7 + rank);
    const weights = tf.variable(tf.zeros([600]), true, 'weights');
    // Its gradient is 1 everywhere: it tells how many updates it has got.
    this.counter = tf.variable(tf.zeros([1]), true, 'counter');
    this.variables = [weights, this.counter];
    this.optimizer = ring.wrap(tf.train.sgd(LEARNING_RATE), {
      compression: compression === 'dgc' ? dgc({ sparsity: 0.9, warmUpSteps: 4, denseBelow: 10 }) : noCompression(),
      learningRateRule: 'constant',
    });
    this.loss = () => weights.sub(this.target).square().mean().add(this.counter.sum());
  }

  /** One step. Returns the SHA-256 of all weights. */
  async step(step) {
    if (this.sync) this.optimizer.minimize(this.loss);
    else await this.optimizer.minimizeAsync(this.loss);
    const hash = createHash('sha256');
    for (const variable of this.variables) hash.update(variable.dataSync());
    report({ updates: -this.counter.dataSync()[0] / LEARNING_RATE, after: step });
    return hash.digest('hex');
  }

  spoil() {
    const { tf } = this;
    tf.tidy(() => this.variables[0].assign(this.variables[0].add(1e-3)));
  }

  /** Called after the step was told of. */
  async afterStep(step) {
    if ((step + 1) % this.commitEvery === 0) await this.ring.commit();
  }
}

const LEARNING_RATE = 1 / 64;

module.exports = { Workload };

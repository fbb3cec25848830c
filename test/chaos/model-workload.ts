import { createHash } from 'node:crypto';
import type { LayersModel, Scalar, Tensor, Variable } from '@tensorflow/tfjs';
import { connect, dgc, loadBackend, noCompression, type Ring, type TensorFlow } from '../../src/index';
import type { Plan } from './plan';
import { report } from './rank-report';
import type { Workload } from './workload';

const ROWS = 16;

/** A model of TensorFlow.js, trained by a wrapped optimizer. */
export class ModelWorkload implements Workload {
  private readonly model: LayersModel;
  private readonly optimizer: ReturnType<Ring['wrap']>;
  private readonly variables: Variable[];

  static async open(plan: Plan): Promise<ModelWorkload> {
    const { tf } = await loadBackend({ log: () => {} });
    report({ meets: true });
    return new ModelWorkload(plan, tf, await connect());
  }

  private constructor(
    { compression }: Plan,
    private readonly tf: TensorFlow,
    readonly ring: Ring,
  ) {
    const layer = (units: number, seed: number, more: object = {}) =>
      tf.layers.dense({ units, kernelInitializer: tf.initializers.glorotUniform({ seed }), ...more });
    this.model = tf.sequential({ layers: [layer(40, 1, { inputShape: [30], activation: 'relu' }), layer(4, 2)] });
    this.optimizer = ring.wrap(tf.train.momentum(0.05, 0.9), {
      compression: compression === 'dgc' ? dgc({ sparsity: 0.95, warmUpSteps: 10 }) : noCompression(),
    });
    this.variables = this.model.trainableWeights.map(weight => weight.read() as Variable);
  }

  /** One step. Returns the SHA-256 of all weights. */
  async step(step: number): Promise<string> {
    const { tf } = this;
    tf.tidy(() => {
      const x = tf.randomNormal([ROWS, 30], 0, 1, 'float32', 1_000 * this.ring.rank + step);
      this.optimizer.minimize(() =>
        (this.model.predict(x) as Tensor)
          .sub(x.slice([0, 0], [ROWS, 4]))
          .square()
          .mean<Scalar>(),
      );
    });
    const hash = createHash('sha256');
    for (const variable of this.variables) hash.update(variable.dataSync());
    return hash.digest('hex');
  }

  spoil(): void {
    const { tf } = this;
    tf.tidy(() => this.variables[0]!.assign(this.variables[0]!.add(1e-3)));
  }
}

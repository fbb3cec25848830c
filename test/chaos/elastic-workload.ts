import { createHash } from 'node:crypto';
import type { Scalar, Tensor, Variable } from '@tensorflow/tfjs';
import { connect, dgc, loadBackend, noCompression, type Ring, type TensorFlow } from '../../src/index';
import type { Plan } from './plan';
import { report } from './rank-report';
import type { Workload } from './workload';

const LEARNING_RATE = 1 / 64;

/** A custom loop of an elastic run, which newcomers join at its commits. */
export class ElasticWorkload implements Workload {
  firstStep = 0;
  readonly variables: Variable[];
  readonly optimizer: ReturnType<Ring['wrap']>;
  private readonly sync: boolean;
  private readonly commitEvery: number;
  private readonly counter: Variable;
  private readonly loss: () => Scalar;

  static async open(plan: Plan): Promise<ElasticWorkload> {
    const { tf } = await loadBackend({ backend: 'cpu', log: () => {} });
    report({ meets: true });
    const workload = new ElasticWorkload(plan, tf, await connect());
    const { step } = await workload.ring.join(workload);
    workload.firstStep = step;
    return workload;
  }

  private constructor(
    { compression, elastic, sync }: Plan,
    private readonly tf: TensorFlow,
    readonly ring: Ring,
  ) {
    this.sync = sync;
    this.commitEvery = elastic!.commitEvery;
    const { rank } = ring.launched;
    const target: Tensor = tf.randomNormal([600], 0, 1, 'float32', 7 + rank);
    const weights = tf.variable(tf.zeros([600]), true, 'weights');
    // Its gradient is 1 everywhere: it tells how many updates it has got.
    this.counter = tf.variable(tf.zeros([1]), true, 'counter');
    this.variables = [weights, this.counter];
    this.optimizer = ring.wrap(tf.train.sgd(LEARNING_RATE), {
      compression: compression === 'dgc' ? dgc({ sparsity: 0.9, warmUpSteps: 4, denseBelow: 10 }) : noCompression(),
      learningRateRule: 'constant',
    });
    this.loss = () => weights.sub(target).square().mean().add<Scalar>(this.counter.sum());
  }

  /** One step. Returns the SHA-256 of all weights. */
  async step(step: number): Promise<string> {
    if (this.sync) this.optimizer.minimize(this.loss);
    else await this.optimizer.minimizeAsync(this.loss);
    const hash = createHash('sha256');
    for (const variable of this.variables) hash.update(variable.dataSync());
    report({ updates: -this.counter.dataSync()[0]! / LEARNING_RATE, after: step });
    return hash.digest('hex');
  }

  spoil(): void {
    const { tf } = this;
    tf.tidy(() => this.variables[0]!.assign(this.variables[0]!.add(1e-3)));
  }

  /** Called after the step was told of. */
  async afterStep(step: number): Promise<void> {
    if ((step + 1) % this.commitEvery === 0) await this.ring.commit();
  }
}

import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { variableStates } from '../core/capture-state';
import type { StepStatistics } from '../core/exchange-steps';
import { invalidArgument } from '../errors';
import type { Gradients } from './exchanged-variables';
import { TfjsOptimizer } from './tfjs-optimizer';
import { explainNoGradient } from './no-gradient';
import { isOwnOptimizer, notOurs } from './one-copy';
import type { NamedTensor } from './optimizer-state';
import { OptimizerSteps, STEPS, stepsOf } from './optimizer-steps';
import { checkWrapOptions, weightDecayOf, type WrapOptions } from './wrap-options';

/**
 * An optimizer that applies the mean gradient of all ranks. Made by {@link Ring.wrap}. It is a `tf.Optimizer` for
 * `model.compile`, `minimize` and custom loops.
 *
 * Deep Gradient Compression has to apply the momentum before it selects (paper, section 3.2). So the wrapper takes over
 * the momentum of `tf.train.momentum` (plain or Nesterov); `tf.train.sgd` has none. With other compressions, such as
 * `lowRank`, the wrapper applies that momentum to the mean. The inner optimizer then only gives its learning rate. Any
 * other optimizer gets the averaged gradient, as compression leaves it: see docs/algorithms.md.
 *
 * ```ts
 * const w = tf.variable(tf.zeros([50, 40]), true, 'weights');
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9));
 * for (let step = 0; step < 10; step++) await optimizer.minimizeAsync(() => w.sub(ring.rank).square().mean());
 * console.log(optimizer.statistics.steps); // 10
 * optimizer.dispose();
 * ```
 */
export class RingOptimizer extends tf.Optimizer {
  /**
   * The name of this class for tfjs.
   *
   * @nocollapse
   */
  static get className(): string {
    return 'RingOptimizer';
  }

  /**
   * Tells whether this is a wrapped optimizer. Use this instead of `instanceof`: for tfjs, every object with the
   * methods of an optimizer is an instance of every optimizer class.
   */
  static is(optimizer: unknown): optimizer is RingOptimizer {
    return stepsOf(optimizer) !== undefined;
  }

  /** @internal */
  readonly [STEPS]: OptimizerSteps;
  private readonly inner: TfjsOptimizer;
  /** What {@link getWeights} gave last, which `model.save` does not dispose of. */
  private given: tf.Tensor[] = [];

  constructor(communicator: Communicator, inner: tf.Optimizer, options: WrapOptions = {}) {
    super();
    if (stepsOf(inner) !== undefined) throw invalidArgument('The optimizer is wrapped already.');
    if (!isOwnOptimizer(inner)) {
      const words = 'ring.wrap takes a tf.Optimizer such as tf.train.momentum(0.1, 0.9).';
      throw notOurs('optimizer', 'applyGradients', inner, words);
    }
    const checked = checkWrapOptions(options, communicator.isElastic);
    this.inner = new TfjsOptimizer(inner, checked.localSteps > 0, weightDecayOf(checked, 'update'));
    this[STEPS] = new OptimizerSteps(communicator, this.inner, checked);
  }

  private get steps(): OptimizerSteps {
    return this[STEPS];
  }

  /** How many updates were applied. */
  override get iterations(): number {
    return this.steps.iterations;
  }

  /** {@link iterations} as a tensor, as tfjs saves it with an optimizer. */
  override async saveIterations(): Promise<NamedTensor> {
    return { name: 'iter', tensor: tf.scalar(this.iterations, 'int32') }; // tfjs calls it so
  }

  /** The learning rate of the inner optimizer. It may be changed between steps, in the same way on all ranks. */
  get learningRate(): number {
    return this.inner.learningRate;
  }

  set learningRate(learningRate: number) {
    this.inner.learningRate = learningRate;
  }

  /** Sets {@link learningRate}. (The optimizers of tfjs have this method.) */
  setLearningRate(learningRate: number): void {
    this.learningRate = learningRate;
  }

  /**
   * What this process has done and sent so far. It begins at zero when a training is resumed or joined. The compression
   * ratio is `denseBytes / bytesSent`.
   */
  get statistics(): StepStatistics {
    return this.steps.statistics;
  }

  /**
   * Sets the epoch, from 0, on which DGC's warm-up depends. `ring.callbacks()` does it for `model.fit`.
   *
   * @param stepsPerEpoch How many steps each epoch has. A warm-up that has fewer epochs than stages, such as
   *   `warmUpEpochs: 1`, needs it to go through all of them.
   */
  setEpoch(epoch: number, stepsPerEpoch?: number): void {
    this.steps.setEpoch(epoch, stepsPerEpoch);
  }

  /**
   * Computes the gradients of this rank, as every `tf.Optimizer` does it.
   *
   * @param f Run once. If it has no gradient, it is run again, to find the layer to name.
   * @throws GradringError `ERR_NO_GRADIENT` if TensorFlow.js has no gradient of an operation, or the backend does not
   *   have the operation.
   */
  override computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): ReturnType<tf.Optimizer['computeGradients']> {
    try {
      return super.computeGradients(f, varList);
    } catch (error) {
      throw explainNoGradient(error, f);
    }
  }

  /**
   * Exchanges the local gradients and applies their mean. The thread sleeps meanwhile.
   *
   * @throws GradringError `ERR_NON_FINITE`, `ERR_MODEL_MISMATCH`, `ERR_REPLICAS_DIVERGED`, `ERR_NO_EPOCH`, and what
   *   every collective may throw (see {@link Communicator}).
   */
  override applyGradients(gradients: Gradients): void {
    this.steps.takeAsleep(gradients);
  }

  /** Like {@link applyGradients}, but the thread does not sleep. */
  async applyGradientsAsync(gradients: Gradients): Promise<void> {
    await this.steps.takeAwake(gradients);
  }

  /**
   * Applies what is still to come: with `overlap` the update of the last step; with `localSteps` or `accumulate` the
   * ranks exchange what waits, so that all have the same weights. All ranks call it after the same step. `model.fit`
   * with `ring.callbacks()` does it at the end of a training.
   *
   * @throws GradringError what {@link applyGradients} throws.
   */
  async synchronize(): Promise<void> {
    await this.steps.synchronize();
  }

  /**
   * Like `minimize`, but the thread does not sleep: `const cost = await optimizer.minimizeAsync(() => loss(), true)`.
   */
  async minimizeAsync(f: () => tf.Scalar, returnCost = false, varList?: tf.Variable[]): Promise<tf.Scalar | null> {
    const { value, grads } = this.computeGradients(f, varList);
    try {
      const named = varList?.map(({ name }) => ({ name, tensor: grads[name]! }));
      await this.applyGradientsAsync(named ?? grads);
    } catch (error) {
      value.dispose();
      throw error;
    } finally {
      tf.dispose(grads);
    }
    if (returnCost) return value;
    value.dispose();
    return null;
  }

  // `model.save(…, { includeOptimizer: true })` writes the inner optimizer: the file can be loaded without a ring.

  /** Returns the class of the inner optimizer. */
  override getClassName(): string {
    return this.inner.className;
  }

  /** Returns the configuration of the inner optimizer. */
  override getConfig(): tf.serialization.ConfigDict {
    return this.inner.optimizer.getConfig();
  }

  /**
   * Returns the state of the inner optimizer, as `model.save(…, { includeOptimizer: true })` saves it: with the
   * momentum as this rank has it (with DGC each rank has another), and without its residuals. {@link Ring.checkpoint}
   * saves a whole training. The tensors belong to the optimizer, and are valid until the next call.
   */
  override async getWeights(): Promise<NamedTensor[]> {
    this.steps.checkIdle();
    await this.steps.untilStill();
    tf.dispose(this.given);
    this.given = [];
    const weights = await this.newWeights();
    this.given = weights.flatMap(({ tensor }) => (tensor instanceof tf.Variable ? [] : [tensor]));
    return weights;
  }

  private async newWeights(): Promise<NamedTensor[]> {
    const { optimizer, takenOver } = this.inner;
    if (takenOver === undefined) return optimizer.getWeights();
    const momenta = optimizer.constructor === tf.MomentumOptimizer ? variableStates(this.steps) : [];
    return [
      await this.saveIterations(),
      ...momenta.map(({ name, shape, momentum }) => {
        return { name: `${name}/momentum`, tensor: tf.tensor(momentum.slice(), [...shape]) };
      }),
    ];
  }

  /**
   * Refuses weights: only a checkpoint has the state of all ranks.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT`, always.
   */
  override async setWeights(): Promise<void> {
    throw invalidArgument(
      'A wrapped optimizer does not take weights: each rank has a state of its own. Save and resume by ring.checkpoint(…).',
    );
  }

  /**
   * Closes the exchange, and frees its memory and the variables of the inner optimizer. In an elastic run close the
   * ring before: until then other ranks may still need the last step of this one.
   */
  override dispose(): void {
    this.steps.checkIdle();
    this.steps.close();
    tf.dispose(this.given);
    super.dispose();
  }
}

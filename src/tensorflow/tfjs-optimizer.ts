import { tf } from './tfjs';
import type { Momentum, UpdateRule } from '../core/exchange-steps';
import { invalidArgument } from '../errors';
import type { ExchangedVariables } from './exchanged-variables';
import type { InnerState, NamedTensor } from './optimizer-state';
import type { DecayOf } from './wrap-options';

/** An optimizer of TensorFlow.js: it gives the learning rate, and its rule applies the updates. */
export class TfjsOptimizer implements UpdateRule<ExchangedVariables> {
  /** The momentum that was taken over. Undefined if the optimizer applies the averaged gradient itself. */
  readonly takenOver: Momentum | undefined;
  private readonly momentum: number;

  /**
   * @param keepsMomentum Whether it applies its momentum by itself, even if that could be taken over.
   * @param weightDecay What is added to the updates. Null: nothing.
   */
  constructor(
    readonly optimizer: tf.Optimizer,
    keepsMomentum = false,
    private readonly weightDecay: DecayOf | null = null,
  ) {
    const found = momentumOf(optimizer);
    this.takenOver = keepsMomentum ? undefined : found;
    this.momentum = found?.momentum ?? 0;
  }

  get className(): string {
    return this.optimizer.getClassName();
  }

  get learningRate(): number {
    return (this.optimizer as unknown as { learningRate: number }).learningRate;
  }

  set learningRate(learningRate: number) {
    const optimizer = this.optimizer as unknown as {
      learningRate: number;
      setLearningRate?: (learningRate: number) => void;
    };
    if (optimizer.setLearningRate !== undefined) optimizer.setLearningRate(learningRate);
    else optimizer.learningRate = learningRate;
  }

  /**
   * Applies the updates in the exchange.
   *
   * @param rateFactor Multiplies the learning rate.
   */
  apply(trained: ExchangedVariables, rateFactor: number): void {
    const { learningRate } = this;
    const { variables } = trained;
    tf.tidy(() => {
      for (const variable of variables) {
        const decay = this.weightDecay?.(variable.name) ?? 0;
        if (decay === 0) continue;
        const kept = 1 - (learningRate * rateFactor * decay) / (1 - this.momentum);
        variable.assign(tf.tidy(() => variable.mul(kept)));
      }
      if (this.takenOver === undefined) {
        if (rateFactor !== 1) this.learningRate = learningRate * rateFactor;
        // Copies, as the inner optimizer may keep them, and the memory is written again in the next step.
        const updates = variables.map(({ name }, i) => ({ name, tensor: trained.updateTensor(i, true) }));
        try {
          this.optimizer.applyGradients(updates);
        } finally {
          if (rateFactor !== 1) this.learningRate = learningRate;
        }
        return;
      }
      const factor = tf.scalar(-learningRate * rateFactor);
      const copies = readsLater();
      variables.forEach((variable, i) =>
        variable.assign(tf.tidy(() => tf.add(tf.mul(factor, trained.updateTensor(i, copies)), variable))),
      );
    });
  }

  /** The state of the optimizer, if it keeps one. {@link disposeInner} frees the tensors that are copies. */
  async capture(): Promise<InnerState> {
    if (this.takenOver !== undefined) return { weights: [], fields: [] };
    try {
      return { weights: await this.optimizer.getWeights(), fields: this.fields() };
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw invalidArgument(`The state of ${this.className} cannot be saved: ${why}`);
    }
  }

  /** Takes back what {@link capture} gave. */
  async restore({ weights, fields }: InnerState): Promise<void> {
    if (this.takenOver !== undefined) return;
    const { optimizer } = this;
    const before = await optimizer.getWeights();
    await optimizer.setWeights([...weights]);
    const after = await optimizer.getWeights();
    // tfjs drops the variables that it replaces, and leaves them in memory.
    const kept = new Set(after.map(({ tensor }) => tensor));
    tf.dispose(before.map(({ tensor }) => tensor).filter(tensor => !kept.has(tensor)));
    disposeInner({ weights: after, fields: [] });
    const own = new Map(this.fields().map(({ name, tensor }) => [name, tensor as tf.Variable]));
    for (const { name, tensor } of fields) own.get(name)?.assign(tensor);
  }

  private fields(): NamedTensor[] {
    return Object.entries(this.optimizer)
      .filter((entry): entry is [string, tf.Variable] => entry[1] instanceof tf.Variable)
      .map(([name, tensor]) => ({ name, tensor }));
  }
}

/** Frees the tensors that are no variables of the optimizer itself. */
export function disposeInner({ weights }: InnerState): void {
  tf.dispose(weights.map(({ tensor }) => tensor).filter(tensor => !(tensor instanceof tf.Variable)));
}

/** Whether the backend may still read a tensor's values when the operation on it has returned, as on a GPU. */
function readsLater(): boolean {
  return (tf.backend() as { isUsingGpuDevice?: boolean }).isUsingGpuDevice === true;
}

function momentumOf(optimizer: tf.Optimizer): Momentum | undefined {
  const { momentum = 0, useNesterov = false } = optimizer.getConfig() as { momentum?: number; useNesterov?: boolean };
  // Not by `instanceof`, to which tfjs says yes for all. A user's subclass has rules of its own, and keeps them.
  switch (optimizer.constructor) {
    case tf.MomentumOptimizer:
      return { momentum, nesterov: useNesterov };
    case tf.SGDOptimizer:
      return { momentum: 0, nesterov: false };
    default:
      return undefined;
  }
}

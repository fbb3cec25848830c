import { tf } from './tfjs';
import type { Load, TakenStep } from '../core/exchange-policy';
import type { ExchangedVariables, Gradients } from './exchanged-variables';
import type { VariablesPolicy } from './local-steps';
import type { WaitingState } from './optimizer-state';

/** Each rank adds up the gradients of several steps. Then the ranks exchange their mean, as that of a large batch. */
export class Accumulate implements VariablesPolicy {
  readonly changesWeights = false;
  waitingSteps = 0;
  /** By the name of the variable. One that had no gradient yet is not there. */
  private sums = new Map<string, tf.Tensor>();

  constructor(readonly stepsPerExchange: number) {}

  take(trained: ExchangedVariables, gradients: Gradients, factor: number): TakenStep {
    const given = trained.gradientsByName(gradients);
    // Where a rank has no batch, its weights decay nevertheless.
    const missing =
      factor === 1 ? [] : trained.variables.filter(({ name }) => !given.has(name) && !this.sums.has(name));
    for (const { name, shape } of missing) this.sums.set(name, tf.keep(tf.zeros(shape)));
    for (const [name, gradient] of given) {
      const sum = this.sums.get(name);
      // The caller disposes of the gradient, so the sum needs a tensor of its own.
      const added = tf.tidy(() => {
        const scaled = factor === 1 ? gradient : gradient.mul(factor);
        return sum === undefined ? scaled.toFloat() : sum.add(scaled);
      });
      this.sums.set(name, tf.keep(added));
      sum?.dispose();
    }
    this.waitingSteps++;
    const isDue = this.waitingSteps >= this.stepsPerExchange;
    return { isApplied: false, ...(isDue && { load: this.loadWaiting(trained) }) };
  }

  loadWaiting(trained: ExchangedVariables): Load {
    return () =>
      tf.tidy(() => {
        const means = [...this.sums].map(([name, sum]) => [name, sum.div(this.waitingSteps)] as const);
        return trained.load(Object.fromEntries(means));
      });
  }

  beforeUpdate(): void {
    this.dispose();
  }

  capture(): WaitingState | undefined {
    if (this.waitingSteps === 0) return undefined;
    const sums = [...this.sums].map(([name, tensor]) => ({ name, tensor }));
    return { steps: this.waitingSteps, start: [], sums };
  }

  restore({ steps, sums }: WaitingState): void {
    this.dispose();
    this.waitingSteps = steps;
    this.sums = new Map(sums.map(({ name, tensor }) => [name, tensor]));
  }

  dispose(): void {
    tf.dispose([...this.sums.values()]);
    this.sums = new Map();
    this.waitingSteps = 0;
  }
}

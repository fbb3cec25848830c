import { EveryStep, type ExchangePolicy } from '../core/exchange-policy';
import type { ExchangedVariables, Gradients } from './exchanged-variables';
import type { WaitingState } from './optimizer-state';
import type { DecayOf } from './wrap-options';

/** A policy whose waiting steps keep tensors of TensorFlow.js. */
export interface VariablesPolicy extends ExchangePolicy<ExchangedVariables, Gradients> {
  capture(): WaitingState | undefined;
  /** Takes back what {@link capture} gave. The tensors become the policy's. */
  restore(state: WaitingState): void;
}

/** The ranks exchange the gradients of every step. */
export class EveryGradient extends EveryStep<ExchangedVariables, Gradients> implements VariablesPolicy {
  /** @param weightDecay That of the gradient. */
  constructor(weightDecay: DecayOf) {
    super((trained, gradients) => trained.load(gradients, weightDecay));
  }

  restore(): void {}
}

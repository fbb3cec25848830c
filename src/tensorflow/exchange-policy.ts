import type { ExchangedVariables, Gradients, LoadedGradients } from './exchanged-variables';
import type { WaitingState } from './optimizer-state';
import type { DecayOf } from './wrap-options';

/** When the ranks exchange, and what: the gradients of every step, those of several, or what several have changed. */
export interface ExchangePolicy {
  /** How many steps share an exchange. */
  readonly stepsPerExchange: number;
  /** How many steps were taken since the last exchange, on this rank alone. */
  readonly waitingSteps: number;
  /** Whether waiting steps have changed the weights of this rank alone. */
  readonly changesWeights: boolean;
  /** Takes the gradients of a step. */
  take(trained: ExchangedVariables, gradients: Gradients): TakenStep;
  /** What the waiting steps give to an exchange. */
  loadWaiting(trained: ExchangedVariables): Load;
  /** All ranks have exchanged. Also called if there is no update. */
  beforeUpdate(trained: ExchangedVariables): void;
  /** What a checkpoint keeps of the waiting steps. The tensors are the policy's. */
  capture(): WaitingState | undefined;
  /** Takes back what {@link capture} gave. The tensors become the policy's. */
  restore(state: WaitingState): void;
  dispose(): void;
}

/**
 * Copies to the memories of the exchange what is exchanged. May be called again: an exchange that failed in an elastic
 * run is begun again in the next ring.
 */
export type Load = () => LoadedGradients;

/** What has become of the gradients of a step. */
export interface TakenStep {
  /** Set if the ranks exchange now. */
  readonly load?: Load;
  /** Whether the weights of this rank were changed already. */
  readonly isApplied: boolean;
  /** The number of a tensor that is not finite, so that nothing was applied. */
  readonly nonFiniteTensor?: number | undefined;
}

/** The ranks exchange the gradients of every step. */
export class EveryStep implements ExchangePolicy {
  readonly stepsPerExchange = 1;
  readonly waitingSteps = 0;
  readonly changesWeights = false;

  /** @param weightDecay That of the gradient. */
  constructor(private readonly weightDecay: DecayOf) {}

  take(trained: ExchangedVariables, gradients: Gradients): TakenStep {
    return { load: () => trained.load(gradients, this.weightDecay), isApplied: false };
  }

  loadWaiting(): Load {
    throw new Error('No step waits.');
  }

  beforeUpdate(): void {}

  capture(): undefined {}

  restore(): void {}

  dispose(): void {}
}

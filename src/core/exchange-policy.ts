import type { ExchangedTensors, LoadedGradients } from './exchanged-tensors';
import type { WaitingSteps } from './step-state';

/**
 * When the ranks exchange, and what: the gradients of every step, those of several, or what several have changed.
 *
 * @template T The tensors whose gradients are exchanged.
 * @template G The gradients of a step, as the program gives them.
 */
export interface ExchangePolicy<T extends ExchangedTensors, G> {
  /** How many steps share an exchange. */
  readonly stepsPerExchange: number;
  /** How many steps were taken since the last exchange, on this rank alone. */
  readonly waitingSteps: number;
  /** Whether waiting steps have changed the weights of this rank alone. */
  readonly changesWeights: boolean;
  /**
   * Takes the gradients of a step.
   *
   * @param factor Multiplies them.
   */
  take(trained: T, gradients: G, factor: number): TakenStep;
  /** What the waiting steps give to an exchange. */
  loadWaiting(trained: T): Load;
  /** All ranks have exchanged. Also called if there is no update. */
  beforeUpdate(trained: T): void;
  /** What a checkpoint keeps of the waiting steps. Tensors are the policy's. */
  capture(): WaitingSteps | undefined;
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

/** Tensors to whose memories the gradients of a step are copied. */
interface Loading<G> extends ExchangedTensors {
  load(gradients: G): LoadedGradients;
}

/** The ranks exchange the gradients of every step. */
export class EveryStep<T extends Loading<G>, G> implements ExchangePolicy<T, G> {
  readonly stepsPerExchange = 1;
  readonly waitingSteps = 0;
  readonly changesWeights = false;

  take(trained: T, gradients: G, factor: number): TakenStep {
    return { load: () => trained.scaled(trained.load(gradients), factor), isApplied: false };
  }

  loadWaiting(): Load {
    throw new Error('No step waits.');
  }

  beforeUpdate(): void {}

  capture(): undefined {}

  /** Nothing waits. */
  restore(): void {}

  dispose(): void {}
}

import type { tf } from './tfjs';
import type { Gradients } from './exchanged-variables';
import type { OptimizerState } from './optimizer-state';
import type { StepStatistics } from '../core/exchange-steps';
import type { SentFraction } from '../core/sent-fraction';
import type { CheckpointedSteps } from '../core/training-checkpoint';

/** Marks an optimizer of this copy of gradring. For tfjs every object with the right methods is an optimizer. */
export const TRAINED = Symbol('wrapped by ring.wrap');

/** What callbacks, checkpoints and newcomers use of an optimizer that `ring.wrap` has made. */
export interface TrainedOptimizer extends Pick<tf.Optimizer, 'getClassName'>, CheckpointedSteps<OptimizerState> {
  readonly [TRAINED]: true;
  learningRate: number;
  readonly statistics: StepStatistics;
  /** How many ranks have taken the last exchange, or have agreed since then: the same number on all. */
  ranksInStep: number;
  /** Multiplies the gradients of this rank. More than 1 where not all ranks have a batch. */
  gradientFactor: number;
  /** Which fraction of the gradients is sent. Undefined without compression. */
  readonly sentFraction: SentFraction | undefined;
  /** Whether ranks change their weights between exchanges. */
  readonly hasLocalSteps: boolean;
  /** A step. Variables without a gradient have that of 0. */
  applyGradientsAsync(gradients: Gradients): Promise<void>;
  /** Ends such a round, and applies what is under way. A collective. */
  synchronize(): Promise<void>;
  /**
   * Sets the epoch, but never goes back: a second `model.fit`, which counts from 0 again, does not repeat a warm-up.
   */
  beginEpoch(epoch: number): void;
  /** Tensors of the state are disposed of. */
  restoreState(state: OptimizerState): Promise<void>;
  /**
   * Takes the state of the others, on a rank that joins them: as {@link restoreState}, and opens the exchange of the
   * variables that they train, in their order. No collective is called.
   *
   * @param hasBegun Whether they have taken a step since they were started. If not, they compare what they train in the
   *   next, with this rank.
   */
  adoptState(state: OptimizerState, hasBegun: boolean): Promise<void>;
}

/** Whether an optimizer is one. */
export function isTrained(optimizer: unknown): optimizer is TrainedOptimizer {
  return (optimizer as Partial<TrainedOptimizer> | undefined)?.[TRAINED] === true;
}

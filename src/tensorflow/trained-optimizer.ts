import type { tf } from './tfjs';
import type { Gradients } from './exchanged-variables';
import type { OptimizerState } from './optimizer-state';
import type { StepStatistics } from './optimizer-steps';
import type { SentFraction } from './sent-fraction';
import type { StepNotices } from './step-notices';

/** Marks an optimizer of this copy of gradring. For tfjs every object with the right methods is an optimizer. */
export const TRAINED = Symbol('wrapped by ring.wrap');

/** What callbacks, checkpoints and newcomers use of an optimizer that `ring.wrap` has made. */
export interface TrainedOptimizer extends Pick<tf.Optimizer, 'getClassName'> {
  readonly [TRAINED]: true;
  learningRate: number;
  readonly statistics: StepStatistics;
  /** The number of the next step of the training, which continues when that is resumed. */
  readonly nextStep: number;
  /** How many ranks have taken the last exchange, or have agreed since then: the same number on all. */
  ranksInStep: number;
  /** As `setEpoch` or `model.fit` last told it. */
  readonly currentEpoch: number | undefined;
  /** The names of the variables that it trains. Undefined before the first step. */
  readonly trainedNames: ReadonlySet<string> | undefined;
  /** Multiplies the gradients of this rank. More than 1 where not all ranks have a batch. */
  gradientFactor: number;
  /** Which fraction of the gradients is sent. Undefined without compression. */
  readonly sentFraction: SentFraction | undefined;
  /** Whether the learning rate follows the size of the ring, so that a rank's gradient always has the same weight. */
  readonly keepsSum: boolean;
  /** What the ranks tell each other with each exchange. */
  readonly notices: StepNotices;
  /** Whether ranks change their weights between exchanges. */
  readonly hasLocalSteps: boolean;
  /** Whether the weights of the ranks may differ now: within a round of local steps. */
  readonly replicasMayDiffer: boolean;
  /** A step. Variables without a gradient have that of 0. */
  applyGradientsAsync(gradients: Gradients): Promise<void>;
  /** Ends such a round, and applies what is under way. A collective. */
  synchronize(): Promise<void>;
  /**
   * Sets the epoch, but never goes back: a second `model.fit`, which counts from 0 again, does not repeat a warm-up.
   */
  beginEpoch(epoch: number): void;
  /** Passes what a checkpoint keeps of this rank to `use`, as views: no step may be taken until its promise settles. */
  withState<T>(use: (state: OptimizerState) => Promise<T>): Promise<T>;
  /**
   * Takes back what {@link withState} gave, on this or another rank. The arrays become the optimizer's; the tensors are
   * disposed of.
   */
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

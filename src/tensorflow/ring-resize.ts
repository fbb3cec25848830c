import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';

/** What happens to the learning rate in a ring of another size than at the launch: {@link WrapOptions}. */
export type LearningRateRule = 'linear' | 'constant';

/**
 * How the size of an elastic ring tells in the update, which is the mean over the ranks that are there. By the linear
 * rule a rank's gradient always counts learning rate ÷ size at launch, however many ranks there are; so what residuals
 * hold back is applied with the weight that it was computed for. Where the run is not elastic nothing changes.
 */
export class RingResize {
  /** Size of the ring that took the last step. */
  lastWorldSize: number | undefined;

  constructor(
    private readonly communicator: Communicator,
    readonly rule: LearningRateRule,
  ) {
    if (rule === 'linear' || rule === 'constant') return;
    throw invalidArgument(`learningRateRule is '${String(rule)}'; it must be 'linear' or 'constant'.`);
  }

  /** Multiplies the learning rate of the step that was just taken. */
  get rateFactor(): number {
    const { lastWorldSize, communicator } = this;
    if (!this.isLinear || lastWorldSize === undefined) return 1;
    return lastWorldSize / communicator.launched.worldSize;
  }

  /**
   * Multiplies the momentum that all ranks share before the next step. The learning rate multiplies the momentum, too,
   * in which past gradients have the weight of their own step's rate (momentum correction: Goyal et al. 2017, section
   * 3).
   */
  get momentumCorrection(): number {
    const { lastWorldSize, communicator } = this;
    return this.isLinear && lastWorldSize !== undefined ? lastWorldSize / communicator.worldSize : 1;
  }

  /** Whether the learning rate follows the size. */
  get isLinear(): boolean {
    return this.communicator.isElastic && this.rule === 'linear';
  }
}

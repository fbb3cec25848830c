import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';

/** What happens to the learning rate in a ring of another size than at the launch: the option `learningRateRule`. */
export type LearningRateRule = 'linear' | 'constant';

/**
 * How the update, which is a mean over the ranks, depends on the size of an elastic ring. By the linear rule each
 * rank's gradient always has the weight learning rate ÷ size at launch. So what residuals hold back is applied with the
 * weight for which it was computed. In a run that is not elastic nothing changes.
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

  /** The factor of the learning rate for the last step. */
  get rateFactor(): number {
    const { lastWorldSize, communicator } = this;
    if (!this.isLinear || lastWorldSize === undefined) return 1;
    return lastWorldSize / communicator.launched.worldSize;
  }

  /**
   * The factor of the momentum that all ranks share, before the next step. The learning rate multiplies the momentum,
   * too, although past gradients should have the rate of their own step (momentum correction: Goyal et al. 2017,
   * section 3).
   */
  get momentumScale(): number {
    const { lastWorldSize, communicator } = this;
    return this.isLinear && lastWorldSize !== undefined ? lastWorldSize / communicator.worldSize : 1;
  }

  /** Whether the learning rate follows the size. */
  get isLinear(): boolean {
    return this.communicator.isElastic && this.rule === 'linear';
  }
}

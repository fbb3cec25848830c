import { requireOneOf } from '../check-options';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';

// What the ranks of a training agree on beside the gradients, with each exchange: what they tell each other, whether
// they compare their weights after it, and the learning rate in a ring of another size.

/** What a rank may tell the others with an exchange. Each notice is one of eight bits. */
export const Notice = {
  /** It was told to stop. */
  Stop: 1,
  /** It is writing a checkpoint in the background. */
  Writing: 2,
  /** It has written one, or failed to. */
  Written: 4,
} as const;

/**
 * What the ranks of a training tell each other with each exchange, at no cost: it travels with the gradients. So all
 * learn it after the same step.
 */
export class StepNotices {
  /** What this rank tells with each exchange that begins from now on. */
  own = 0;
  private agreed: number | undefined;

  /** Takes what some rank has told with the last exchange. Undefined if there was none since it was taken. */
  take(): number | undefined {
    const { agreed } = this;
    this.agreed = undefined;
    return agreed;
  }

  /** Does as if no rank had told that with the last exchange. */
  forget(notice: number): void {
    if (this.agreed !== undefined) this.agreed &= ~notice;
  }

  /** An exchange is over. */
  hear(agreed: number): void {
    this.agreed = agreed;
  }
}

/** What a step's result says about its verification: the same on all ranks, also on those that take it from others. */
export interface VerifiedStep {
  /** The generation of the ring that took the step. */
  readonly generation: number;
  /** Whether the weights of all ranks are compared after it. */
  readonly verifies: boolean;
}

/** After which steps the weights of all ranks are compared: every so many, and after the first in each elastic ring. */
export class Verification {
  /** The generation in which weights were compared last. */
  private verifiedIn: number | undefined;

  /** @param every 0: never, except after the first step in an elastic ring. */
  constructor(
    private readonly communicator: Pick<Communicator, 'generation' | 'isElastic'>,
    readonly every: number,
  ) {
    if (Number.isInteger(every) && every >= 0) return;
    throw invalidArgument(`verifyEvery is ${every}; it must be a whole number of steps, or 0 for never.`);
  }

  /**
   * The verification after an exchange of the present ring.
   *
   * @param done How many steps are done then.
   * @param exchanged How many of them the exchange was for.
   */
  of(done: number, exchanged = 1): VerifiedStep {
    const { generation, isElastic } = this.communicator;
    const { every } = this;
    const isDue = every > 0 && Math.floor(done / every) > Math.floor((done - exchanged) / every);
    return { generation, verifies: isDue || (isElastic && generation !== this.verifiedIn) };
  }

  /** A step is over on this rank. */
  finishStep({ generation, verifies }: VerifiedStep): void {
    if (verifies) this.verifiedIn = generation;
  }
}

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

  /** Whether the learning rate follows the size. */
  readonly isLinear: boolean;

  constructor(
    private readonly communicator: Communicator,
    rule: LearningRateRule,
  ) {
    requireOneOf('learningRateRule', rule, ['linear', 'constant']);
    this.isLinear = communicator.isElastic && rule === 'linear';
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
}

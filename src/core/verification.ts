import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';

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

import type { Communicator } from '../../src/communicator/communicator';

/** What the ranks of a run train. */
export interface Workload {
  readonly ring: Communicator;
  /** The step to begin with. Default: 0. */
  readonly firstStep?: number;
  /** Does one step. Returns the SHA-256 of all weights. */
  step(step: number): Promise<string>;
  /** Called after the step was reported. */
  afterStep?(step: number): Promise<void>;
  /** Changes a weight on this rank alone, as a bug would. */
  spoil(): void;
}

/** Where a scheduler has put this process, among those that it started together. */
export interface Place {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank among the processes of this host. */
  readonly localRank: number;
  /** The host of rank 0: loopback if all ranks are here. Undefined if the scheduler does not say it. */
  readonly masterAddr: string | undefined;
  /** Distinguishes the run from others of the cluster. Empty if the scheduler does not say it. */
  readonly runId: string;
}

/** A program that starts several processes together, and tells each its place in its environment. */
export interface Scheduler {
  readonly name: string;
  /**
   * @returns The place of this process. Undefined if this scheduler has not started it.
   * @throws GradringError `ERR_INVALID_ENVIRONMENT` if it has, and its variables do not say the place.
   */
  placeOf(env: NodeJS.ProcessEnv): Place | undefined;
  /** How a user gives these processes a variable, for messages. */
  readonly passing: (variable: string) => string;
}

/** Where ranks of one host meet. */
export const LOOPBACK = '127.0.0.1';

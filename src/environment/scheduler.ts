/** Where a scheduler has put this process, among those that it started together. */
export interface Place {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank among the processes of this host. */
  readonly localRank: number;
  /** How many of the processes are on this host. Undefined if the scheduler does not say it. */
  readonly localSize: number | undefined;
  /** The host of rank 0. Undefined if the scheduler does not say it; nobody needs it if all ranks are on this host. */
  readonly masterAddr?: string | undefined;
  /** The port of the rendezvous, if the scheduler says it. */
  readonly masterPort?: number;
  /**
   * Distinguishes the run from others at the same time. Undefined if the scheduler does not say it; empty if no other
   * run has the same master.
   */
  readonly runId: string | undefined;
}

/** A program that starts several processes together, and tells each its place in its environment. */
export interface Scheduler {
  readonly name: string;
  /** The variable without which this scheduler has not started the process. Of several, as `env -u` takes them. */
  readonly mark: string;
  /** Whether this scheduler has started the process. */
  isThere(env: NodeJS.ProcessEnv): boolean;
  /**
   * The place of this process, if {@link isThere}.
   *
   * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the variables do not say it.
   */
  placeOf(env: NodeJS.ProcessEnv): Place;
  /** How a user gives these processes a variable, for messages. */
  readonly passing: (variable: string) => string;
  /** What to do if the host of rank 0 is not known. Default: to pass MASTER_ADDR. */
  readonly unknownMaster?: string;
  /** Set if the processes have no home directory in common. */
  readonly isHomeless?: boolean;
}

import type { RunningRank } from './rank-process';

/** How the ranks of a run meet. */
export interface Meeting {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly runId: string;
  readonly runToken: string | undefined;
}

/** What a rank is told when it is started, whatever host it is on. */
export interface RankStart extends Meeting {
  /** More variables for the environment. */
  readonly variables: Readonly<Record<string, string>>;
}

/** Where ranks run: on this host, or on others. What follows when one is lost is up to the {@link RunPolicy}. */
export interface RankStarter {
  /**
   * Starts a process of a rank.
   *
   * @param rank Its number among those of this launcher.
   * @throws GradringError `ERR_RANK_FAILED` if that is known to be impossible at once.
   */
  start(rank: number, told: RankStart): RunningRank;
  /** Why no process of a rank can be started any more. Undefined: one can. */
  whyNoStart(rank: number): string | undefined;
  /** Releases what the ranks needed. All have ended. */
  close(): void | Promise<void>;
}

/** A starter whose ranks can be started, and where they will meet. */
export interface ReadyStarter {
  readonly starter: RankStarter;
  /** What the user should know before they start. */
  readonly warnings: readonly (string | undefined)[];
  readonly masterAddr: string;
  readonly masterPort: number;
}

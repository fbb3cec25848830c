import { Patience } from './patience';
import type { RankOutputs } from './rank-outputs';
import type { RankOutcome, RankProcess } from './rank-process';
import { FORWARDED_SIGNALS, type ForwardedSignal } from './signals';

/** What becomes of a run when its ranks end: they end together ({@link StaticRun}), or go on ({@link ElasticRun}). */
export interface RunPolicy {
  /** The first rank that failed of itself, if the run has failed: not one that ended after a signal to the launcher. */
  readonly rootCause: RankOutcome | undefined;
  /** Whether it is still to be decided what follows from the ranks that have ended. */
  readonly isUndecided: boolean;
  /** Whether all ranks are to be started again, when none runs any more. */
  readonly startsAgain: boolean;
  /** More for the environment of ranks that are started together. */
  readonly variables: Readonly<Record<string, string>>;
  /** All ranks are about to be started together. */
  onStart(): void;
  onEnded(outcome: RankOutcome): void;
  /** No rank runs any more, for good. Settles when all has been said. */
  onOver(): Promise<void>;
}

/** How a run ended. */
export interface RunEnd {
  readonly rootCause: RankOutcome | undefined;
  /** The first signal to the launcher, unless the run had already failed. */
  readonly interruptedBy: ForwardedSignal | undefined;
  /** Of each rank's last process, in the order of ranks. */
  readonly outcomes: readonly RankOutcome[];
}

/** What the supervisor does not do itself. */
export interface SupervisorHooks {
  /** Starts a process, of the rank of that number on this host. */
  readonly start: (localRank: number, variables: Readonly<Record<string, string>>) => RankProcess;
  readonly outputs: Pick<RankOutputs, 'relay' | 'say'>;
}

/**
 * Starts the processes of all ranks, relays their output, and passes signals on. A signal to the launcher is passed on
 * once and followed by SIGKILL after the grace time, or at once when it comes again.
 */
export class Supervisor {
  interruptedBy: ForwardedSignal | undefined;
  private readonly received = new Set<ForwardedSignal>();
  private readonly children = new Map<number, RankProcess>();
  private readonly lastOutcomes = new Map<number, RankOutcome>();
  private readonly relays: Promise<void>[] = [];
  private readonly lastRelays = new Map<number, Promise<void>>();
  private readonly patience: Patience;
  private graceTimer: NodeJS.Timeout | undefined;
  private policy!: RunPolicy;
  private over: () => void = () => undefined;

  constructor(
    private readonly rankCount: number,
    private readonly graceMs: number,
    private readonly hooks: SupervisorHooks,
  ) {
    this.patience = new Patience(
      () => this.running,
      line => void hooks.outputs.say([line]),
    );
  }

  /** In the order of ranks. */
  get running(): readonly RankProcess[] {
    return [...this.children.values()].sort((a, b) => a.rank - b.rank);
  }

  /**
   * Runs all ranks to their end.
   *
   * @throws GradringError `ERR_RANK_FAILED` if the system cannot start one. Then none runs.
   */
  async run(policy: RunPolicy): Promise<RunEnd> {
    this.policy = policy;
    const handlers = FORWARDED_SIGNALS.map(signal => [signal, () => this.receive(signal)] as const);
    for (const [signal, handler] of handlers) process.on(signal, handler);
    try {
      do await this.runOnce();
      while (policy.startsAgain && this.interruptedBy === undefined);
    } finally {
      // Without ranks a signal means this process again, even if the last output is not yet taken.
      for (const [signal, handler] of handlers) process.off(signal, handler);
      await policy.onOver();
    }
    await Promise.all(this.relays);
    const outcomes = [...this.lastOutcomes.values()].sort((a, b) => a.rank - b.rank);
    return { rootCause: policy.rootCause, interruptedBy: this.interruptedBy, outcomes };
  }

  /** @throws GradringError `ERR_RANK_FAILED`, if the system says at once that it cannot start the process. */
  start(localRank: number, variables: Readonly<Record<string, string>>): RankProcess {
    const child = this.hooks.start(localRank, variables);
    const { rank } = child;
    this.children.set(rank, child);
    const relay = child.started.then(() => this.hooks.outputs.relay(child)).catch(() => undefined);
    this.relays.push(relay);
    this.lastRelays.set(rank, relay);
    void child.ended.then(outcome => this.onEnded(outcome));
    child.started.catch(() => {
      this.children.delete(rank);
      this.endIfOver();
    });
    return child;
  }

  /** Settles when all output of the rank's last process has been taken. */
  async outputTaken(rank: number): Promise<void> {
    await this.lastRelays.get(rank);
  }

  /** Takes a signal that the launcher got. */
  receive(signal: ForwardedSignal): void {
    if (this.received.has(signal)) return this.kill();
    this.received.add(signal);
    if (this.policy.rootCause === undefined) this.interruptedBy ??= signal;
    this.endAll(signal);
  }

  /** Asks all ranks to end. They have the grace time for it. */
  endAll(signal: NodeJS.Signals): void {
    for (const child of this.running) child.signal(signal);
    this.graceTimer ??= setTimeout(() => this.kill(), this.graceMs);
  }

  /** Kills that rank, or all. */
  kill(rank?: number): void {
    for (const child of this.running) if (rank === undefined || child.rank === rank) child.kill();
  }

  /** Ends the run, if no rank runs and none is to be started again. */
  endIfOver(): void {
    if (this.children.size === 0 && !this.policy.isUndecided) this.over();
  }

  private async runOnce(): Promise<void> {
    this.policy.onStart();
    const over = new Promise<void>(resolve => (this.over = resolve));
    try {
      await this.startAll();
      await over;
    } finally {
      this.patience.end();
      clearTimeout(this.graceTimer);
      this.graceTimer = undefined;
    }
  }

  /** Starts all ranks, or none: if one cannot be started, those that were are killed. */
  private async startAll(): Promise<void> {
    const children: RankProcess[] = [];
    try {
      for (let rank = 0; rank < this.rankCount; rank++) children.push(this.start(rank, this.policy.variables));
      await Promise.all(children.map(child => child.started));
    } catch (error) {
      this.kill();
      await Promise.allSettled(children.map(child => child.started.then(() => child.ended)));
      throw error;
    }
  }

  private onEnded(outcome: RankOutcome): void {
    this.children.delete(outcome.rank);
    this.lastOutcomes.set(outcome.rank, outcome);
    if (outcome.exitCode === 0) this.patience.begin();
    this.policy.onEnded(outcome);
    this.endIfOver();
  }
}

/** Which of several losses at a time is the cause of the others. */
export function firstCause(losses: readonly RankOutcome[]): RankOutcome | undefined {
  // A rank that was killed takes others with it, which then exit with errors; not the other way round.
  return losses.find(({ signal }) => signal !== null) ?? losses[0];
}

import { STOPPED_EXIT_CODE } from '../environment/stop';
import { Patience } from '../patience';
import { WakingTimer } from '../waking-time';
import type { RankOutputs } from './rank-outputs';
import type { RankOutcome, RunningRank } from './rank-process';
import { NO_REPORT, type RankReport, reportAfter } from './rank-report';
import { FORWARDED_SIGNALS, type ForwardedSignal, onStopSignal, STOP_SIGNAL } from './signals';

/** Ranks that still run this long after the first one was done are named. One may be stopped. */
const STILL_RUNNING_MS = 30_000;

/** What happens to a run when its ranks end. */
export interface RunPolicy {
  /** More variables for the environment of ranks that are started together. */
  readonly variables: Readonly<Record<string, string>>;
  /** Whether a ring cannot form without every rank. */
  readonly needsAll: boolean;
  /** By rank in the last ring that has formed, the rank as it was launched. Undefined: they are the same. */
  readonly members: readonly number[] | undefined;
  /** Losses are decided on together after this time without another loss, in ms. At 0, those of one tick are. */
  readonly settlingMs: number;
  /** How long the other ranks may continue when the run has failed, in ms, to notice and report it. */
  readonly failureGraceMs: number;
  /** All ranks are about to be started together. */
  onStart(): void;
  /** Notes that a rank has ended. Returns whether that is a loss. */
  onEnded(outcome: RankOutcome): boolean;
  /** What follows from losses: the others continue, or all are ended. */
  decide(losses: readonly RankOutcome[]): 'go on' | 'fail' | 'start again';
}

/** Whether a rank has ended as it should: its work is done, or it was told to stop, and has saved. */
export function endedWell({ exitCode, hasSaved }: RankOutcome): boolean {
  return exitCode === 0 || hasSaved === true;
}

/** The policy of a static run: the ranks end together. */
export function endTogether(failureGraceMs: number): RunPolicy {
  const isLoss = (outcome: RankOutcome) => !endedWell(outcome);
  return {
    ...{ variables: {}, needsAll: true, members: undefined, settlingMs: 0, failureGraceMs },
    ...{ onStart: () => undefined, onEnded: isLoss, decide: () => 'fail' as const },
  };
}

/** How a run ended. */
export interface RunEnd {
  /** The first rank that failed by itself; in an elastic run, the first of the losses that ended the run. */
  readonly failure: RankOutcome | undefined;
  /** The first signal to the launcher, unless the run had already failed. */
  readonly interruptedBy: ForwardedSignal | undefined;
  /** The outcome of each rank's last process, in the order of ranks. */
  readonly outcomes: readonly RankOutcome[];
  /** What each rank's last process has told. */
  readonly reports: ReadonlyMap<number, RankReport>;
  /** The ranks whose last process the launcher asked to end, or killed. */
  readonly ended: ReadonlySet<number>;
  readonly members: readonly number[] | undefined;
}

/** What the supervisor does not do itself. */
export interface SupervisorHooks {
  /** Starts a process of the rank with that number of this launcher. */
  readonly start: (localRank: number, variables: Readonly<Record<string, string>>) => RunningRank;
  readonly outputs: Pick<RankOutputs, 'relay' | 'say'>;
}

/**
 * Starts the processes of all ranks, relays their output, and ends them together. When the run fails, the ranks that
 * are left have a short time to notice and report it, then get SIGTERM, and after the grace time SIGKILL. A signal to
 * the launcher is passed on once and followed by SIGKILL after the grace time, or at once when it comes again.
 */
export class Supervisor {
  private failure: RankOutcome | undefined;
  private interruptedBy: ForwardedSignal | undefined;
  private startsAgain = false;
  /** Whether the ranks are to save and stop. */
  private stops = false;
  private readonly received = new Set<ForwardedSignal>();
  private readonly children = new Map<number, RunningRank>();
  private readonly outcomes = new Map<number, RankOutcome>();
  private readonly reports = new Map<number, RankReport>();
  private readonly ended = new Set<number>();
  private unsettled: RankOutcome[] = [];
  private readonly relays: Promise<void>[] = [];
  private readonly lastRelays = new Map<number, Promise<void>>();
  private readonly patience: Patience;
  private readonly timers: { settling?: WakingTimer; failure?: WakingTimer; grace?: WakingTimer } = {};
  private policy!: RunPolicy;
  private over: () => void = () => undefined;

  constructor(
    private readonly rankCount: number,
    private readonly graceMs: number,
    private readonly hooks: SupervisorHooks,
  ) {
    this.patience = new Patience(STILL_RUNNING_MS, seconds => {
      const ranks = ascending(this.children).map(({ rank, pid }) => `rank ${rank} (pid ${pid})`);
      void hooks.outputs.say([
        `gradring: still running, ${seconds} s after the first rank was done: ${ranks.join(', ')}.`,
      ]);
    });
  }

  /**
   * Runs all ranks to their end.
   *
   * @throws GradringError `ERR_RANK_FAILED` if the system cannot start one. Then none runs.
   */
  async run(policy: RunPolicy): Promise<RunEnd> {
    this.policy = policy;
    const receive = (signal: NodeJS.Signals): void => this.receive(signal as ForwardedSignal);
    for (const signal of FORWARDED_SIGNALS) process.on(signal, receive);
    const forget = onStopSignal(() => this.stop());
    try {
      do await this.runOnce();
      while (this.startsAgain && this.interruptedBy === undefined);
    } finally {
      // If no rank runs, signals concern this process again, even if the last output is not yet taken.
      for (const signal of FORWARDED_SIGNALS) process.off(signal, receive);
      forget();
    }
    await Promise.all(this.relays);
    const { failure, interruptedBy, reports, ended } = this;
    return { failure, interruptedBy, outcomes: ascending(this.outcomes), reports, ended, members: policy.members };
  }

  /** @throws GradringError `ERR_RANK_FAILED` if the system reports at once that it cannot start the process. */
  start(localRank: number, variables: Readonly<Record<string, string>>): RunningRank {
    const child = this.hooks.start(localRank, variables);
    const { rank, started } = child;
    this.children.set(rank, child);
    this.reports.set(rank, NO_REPORT);
    this.ended.delete(rank);
    child.onTold = line => this.hear(rank, line);
    const relay = started.then(() => this.hooks.outputs.relay(child)).catch(() => undefined);
    this.relays.push(relay);
    this.lastRelays.set(rank, relay);
    void child.ended.then(outcome => this.onEnded(outcome));
    started.catch(() => {
      this.children.delete(rank);
      this.endIfOver();
    });
    return child;
  }

  /** Whether the rank's last process has left its elastic ring by itself. */
  hasLeft(rank: number): boolean {
    return this.reports.get(rank)!.hasLeft;
  }

  /** Takes the end of a rank for a loss that was none before. */
  lose(rank: number): void {
    if (!this.isEnding) this.noteLoss(this.outcomes.get(rank)!);
  }

  /** Says something when all output of the rank's last process has been taken. */
  sayAfter(rank: number, lines: () => readonly string[]): void {
    this.relays.push(this.lastRelays.get(rank)!.then(() => this.hooks.outputs.say(lines())));
  }

  /** Handles a signal to the launcher. */
  receive(signal: ForwardedSignal): void {
    if (this.received.has(signal)) return void this.kill();
    this.received.add(signal);
    if (this.failure === undefined) this.interruptedBy ??= signal;
    this.endAll(signal);
  }

  /** Tells all ranks to save and stop that do so, now or later: the signal would start the debugger of others. */
  private stop(): void {
    this.stops = true;
    for (const child of this.children.values()) {
      if (this.reports.get(child.rank)!.isListening) child.signal(STOP_SIGNAL);
    }
  }

  /** Kills that rank, or all. Returns whether there was a process. */
  kill(rank?: number): boolean {
    const killed = [...this.children.values()].filter(child => rank === undefined || child.rank === rank);
    for (const child of killed) {
      this.ended.add(child.rank);
      child.kill();
    }
    return killed.length > 0;
  }

  private async runOnce(): Promise<void> {
    this.startsAgain = false;
    this.policy.onStart();
    const over = new Promise<void>(resolve => (this.over = resolve));
    try {
      await this.startAll();
      await over;
    } finally {
      this.patience.end();
      for (const timer of Object.values(this.timers)) timer.cancel();
      delete this.timers.grace;
    }
  }

  /** Starts all ranks, or none: if one cannot be started, those that were are killed. */
  private async startAll(): Promise<void> {
    const children: RunningRank[] = [];
    try {
      for (let rank = 0; rank < this.rankCount; rank++) children.push(this.start(rank, this.policy.variables));
      await Promise.all(children.map(child => child.started));
    } catch (error) {
      // After a signal, ranks that were not started yet are not needed any more, and the others have time to end.
      if (this.interruptedBy === undefined) this.kill();
      await Promise.allSettled(children.map(child => child.started.then(() => child.ended)));
      if (this.interruptedBy === undefined) throw error;
    }
  }

  private hear(rank: number, line: string): void {
    const before = this.reports.get(rank)!;
    const report = reportAfter(before, line);
    this.reports.set(rank, report);
    if (this.stops && report.isListening && !before.isListening) this.children.get(rank)?.signal(STOP_SIGNAL);
    this.noteAbsent();
  }

  private onEnded(ended: RankOutcome): void {
    const hasSaved = ended.exitCode === STOPPED_EXIT_CODE && this.reports.get(ended.rank)!.hasSaved;
    const outcome: RankOutcome = hasSaved ? { ...ended, hasSaved } : ended;
    this.children.delete(outcome.rank);
    this.outcomes.set(outcome.rank, outcome);
    if (endedWell(outcome)) this.patience.begin();
    const isLoss = this.policy.onEnded(outcome);
    if (isLoss && !this.isEnding) this.noteLoss(outcome);
    this.noteAbsent();
    this.endIfOver();
  }

  private get isEnding(): boolean {
    return this.startsAgain || this.failure !== undefined || this.interruptedBy !== undefined;
  }

  /** Takes the end of a rank for a loss, even if it succeeded, if others wait for a ring that needs it. */
  private noteAbsent(): void {
    if (!this.policy.needsAll || this.isEnding || this.unsettled.length > 0) return;
    const ringsOf = (rank: number): number => this.reports.get(rank)!.rings;
    const waiting = [...this.children.keys()].filter(rank => this.reports.get(rank)!.isWaiting);
    const absent = ascending(this.outcomes).find(({ rank }) => waiting.some(each => ringsOf(each) >= ringsOf(rank)));
    if (absent !== undefined) this.noteLoss(absent);
  }

  private noteLoss(outcome: RankOutcome): void {
    const { settlingMs } = this.policy;
    this.unsettled.push(outcome);
    if (settlingMs === 0 && this.unsettled.length === 1) setImmediate(() => this.settle());
    if (settlingMs === 0) return;
    this.timers.settling?.cancel();
    this.timers.settling = new WakingTimer(() => this.settle(), settlingMs);
  }

  private settle(): void {
    const losses = this.unsettled.splice(0);
    const verdict = this.interruptedBy === undefined ? this.policy.decide(losses) : 'go on';
    // A rank that was killed is the cause: the others then exit with errors, but their exits kill no rank.
    if (verdict === 'fail') this.failure = losses.find(({ signal }) => signal !== null) ?? losses[0];
    this.startsAgain = verdict === 'start again';
    if (verdict !== 'go on' && this.children.size > 0) {
      // Ranks that wait for one that has succeeded notice nothing.
      const graceMs = losses.some(({ exitCode }) => exitCode === 0) ? 0 : this.policy.failureGraceMs;
      this.timers.failure = new WakingTimer(() => this.endFailed(), graceMs);
    }
    this.endIfOver();
  }

  /** Ends the ranks that are left of a run that has failed, or is started again. */
  private endFailed(): void {
    // These would take SIGTERM as a request to save, which they cannot do any more.
    for (const { rank } of [...this.children.values()]) if (this.reports.get(rank)!.isListening) this.kill(rank);
    this.endAll('SIGTERM');
  }

  private endAll(signal: NodeJS.Signals): void {
    for (const child of this.children.values()) {
      this.ended.add(child.rank);
      child.signal(signal);
    }
    this.timers.grace ??= new WakingTimer(() => this.kill(), this.graceMs);
  }

  /** Ends the run if no rank runs, and what follows is decided. */
  private endIfOver(): void {
    if (this.children.size === 0 && this.unsettled.length === 0) this.over();
  }
}

function ascending<T extends { readonly rank: number }>(byRank: ReadonlyMap<number, T>): T[] {
  return [...byRank.values()].sort((a, b) => a.rank - b.rank);
}

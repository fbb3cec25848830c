import { Patience } from './patience';
import type { RankOutcome, RankProcess } from './rank-process';
import type { ForwardedSignal } from './signals';

/** See {@link LaunchOptions}. */
export interface SupervisorOptions {
  readonly graceMs: number;
  readonly failureGraceMs: number;
}

/**
 * Ends the ranks together. When one fails, the others have a short time to notice and report it, then get SIGTERM, and
 * after the grace time SIGKILL. A signal to the launcher is passed on once and followed by SIGKILL after the grace
 * time, or at once when it comes again.
 */
export class Supervisor {
  private interruption: ForwardedSignal | undefined;
  private readonly received = new Set<ForwardedSignal>();
  /** The failures that were seen in the first tick that saw any: which of them came first is unknown. */
  private readonly firstFailures: RankOutcome[] = [];
  private firstTickPassed = false;
  private failureTimer: NodeJS.Timeout | undefined;
  private graceTimer: NodeJS.Timeout | undefined;
  private readonly done = new Set<RankProcess>();
  private readonly patience: Patience;

  constructor(
    private readonly ranks: readonly RankProcess[],
    private readonly options: SupervisorOptions,
    /** Takes a line for the user. */
    say: (line: string) => void,
  ) {
    this.patience = new Patience(() => this.ranks.filter(rank => !this.done.has(rank)), say);
  }

  /** The first rank that failed of itself: not one that ended after a signal to the launcher. */
  get rootCause(): RankOutcome | undefined {
    // A rank that was killed takes the others with it, which then exit with errors; not the other way round.
    return this.firstFailures.find(failure => failure.signal !== null) ?? this.firstFailures[0];
  }

  /** The first signal to the launcher, unless a rank had already failed. */
  get interruptedBy(): ForwardedSignal | undefined {
    return this.interruption;
  }

  /** Resolves when all ranks have ended; the outcomes are in the order of the ranks. */
  async untilAllEnded(): Promise<RankOutcome[]> {
    const outcomes = await Promise.all(
      this.ranks.map(async rank => {
        const outcome = await rank.ended;
        this.done.add(rank);
        if (outcome.exitCode !== 0) this.noteFailure(outcome);
        else this.patience.begin();
        return outcome;
      }),
    );
    clearTimeout(this.failureTimer);
    clearTimeout(this.graceTimer);
    this.patience.end();
    return outcomes;
  }

  /** Takes a signal that the launcher got. */
  receive(signal: ForwardedSignal): void {
    if (this.received.has(signal)) return this.killAll();
    this.received.add(signal);
    if (this.firstFailures.length === 0) this.interruption ??= signal;
    this.askAll(signal);
  }

  private noteFailure(outcome: RankOutcome): void {
    if (this.interruption !== undefined || this.firstTickPassed) return;
    this.firstFailures.push(outcome);
    if (this.firstFailures.length > 1) return;
    setImmediate(() => (this.firstTickPassed = true));
    this.failureTimer = setTimeout(() => this.askAll('SIGTERM'), this.options.failureGraceMs);
  }

  private askAll(signal: NodeJS.Signals): void {
    for (const rank of this.ranks) rank.signal(signal);
    this.graceTimer ??= setTimeout(() => this.killAll(), this.options.graceMs);
  }

  private killAll(): void {
    for (const rank of this.ranks) rank.kill();
  }
}

import type { RankOutcome } from './rank-process';
import { firstCause, type RunPolicy, type Supervisor } from './supervisor';

/**
 * The ranks end together. When one fails, the others have a short time to notice and report it, then get SIGTERM, and
 * after the grace time SIGKILL.
 */
export class StaticRun implements RunPolicy {
  readonly isUndecided = false;
  readonly startsAgain = false;
  readonly variables = {};
  /** The failures that were seen in the first tick that saw any: which of them came first is unknown. */
  private readonly firstFailures: RankOutcome[] = [];
  private isFirstTickOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly supervisor: Pick<Supervisor, 'endAll' | 'interruptedBy'>,
    private readonly failureGraceMs: number,
  ) {}

  get rootCause(): RankOutcome | undefined {
    return firstCause(this.firstFailures);
  }

  onStart(): void {
    // Nothing is left of a run before: there is none.
  }

  onEnded(outcome: RankOutcome): void {
    if (outcome.exitCode === 0 || this.supervisor.interruptedBy !== undefined || this.isFirstTickOver) return;
    this.firstFailures.push(outcome);
    if (this.firstFailures.length > 1) return;
    setImmediate(() => (this.isFirstTickOver = true));
    this.timer = setTimeout(() => this.supervisor.endAll('SIGTERM'), this.failureGraceMs);
  }

  async onOver(): Promise<void> {
    clearTimeout(this.timer);
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { ChaosRun, type Observed } from './chaos-run';
import type { Loss } from './plan';
import { type End, LAUNCHER } from './run-processes';
import { POLL_MS } from './strike';
import { RUN_MS } from './time-limits';

/** A process that was struck. */
export interface Struck {
  readonly rank: number;
  readonly pid: number;
  /** A `Date.now()`. */
  readonly at: number;
}

/** What came of an elastic run. */
export interface ElasticObserved extends Observed {
  readonly struck: readonly Struck[];
  readonly launcherEnd: End;
}

/** A run that loses ranks, and is to go on to its end. */
export class ElasticRun extends ChaosRun {
  private readonly struck: Struck[] = [];

  protected override async strike(): Promise<void> {
    let fallen = 0;
    const { losses } = this.plan.elastic!;
    for (const loss of losses) {
      if (!(await this.untilDue(loss))) return;
      await sleep(loss.afterMs);
      const struckBefore = this.struck.length;
      for (const rank of loss.ranks) {
        const pid = this.processes.pidOf(rank);
        if (pid === undefined || this.processes.hasEnded(rank)) continue;
        this.struck.push({ rank, pid, at: Date.now() });
        this.processes.signal(rank, loss.kind === 'kill' ? 'SIGKILL' : 'SIGSTOP');
      }
      if (this.struck.length > struckBefore) fallen++;
    }
    this.isStruck = fallen === losses.length;
  }

  /** False if the run ended before. */
  private async untilDue({ at, ranks }: Loss): Promise<boolean> {
    const lossTime = this.struck.at(-1)?.at ?? Date.now();
    const isDue = () => {
      if ('step' in at) return this.reports.some(({ hashes }) => hashes.some(({ step }) => step >= at.step));
      if ('lossMs' in at) return Date.now() >= lossTime + at.lossMs;
      const starts = this.reports[ranks[0]!]!.facts.filter(fact => 'pid' in fact);
      if ('replacedMs' in at) return starts.length > 1 && Date.now() >= starts.at(-1)!.at + at.replacedMs;
      return starts.length > 0 && performance.now() >= this.startedAt + at.startMs;
    };
    while (!isDue()) {
      if (this.processes.hasEnded(LAUNCHER)) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  protected override async untilEnded(): Promise<void> {
    const { processes } = this;
    while (!processes.hasEnded(LAUNCHER)) {
      const polledAt = performance.now();
      await sleep(POLL_MS);
      this.heldUpMs = Math.max(this.heldUpMs, performance.now() - polledAt);
      this.poll();
      if (performance.now() < this.startedAt + RUN_MS) continue;
      this.overdue = [LAUNCHER];
      processes.signal(LAUNCHER, 'SIGKILL');
    }
    this.poll();
  }

  /** From each strike until some other rank has done a step. */
  protected override get toldMs(): number[] {
    return this.struck.flatMap(({ pid, at }) => {
      const steps = this.reports.flatMap(report =>
        report.lives.filter(life => life.pid !== pid).flatMap(life => life.facts),
      );
      const next = Math.min(...steps.filter(fact => 'step' in fact && fact.at > at).map(fact => fact.at));
      return next === Infinity ? [] : [next - at];
    });
  }

  protected override observed(): ElasticObserved {
    const { struck, toldMs } = this;
    const tookMs = struck.length === 0 ? undefined : Date.now() - struck[0]!.at;
    return { ...super.observed(), struck, toldMs, tookMs, launcherEnd: this.processes.endOf(LAUNCHER) };
  }
}

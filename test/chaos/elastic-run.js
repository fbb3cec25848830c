const { setTimeout: sleep } = require('node:timers/promises');
const { ChaosRun } = require('./chaos-run');
const { LAUNCHER } = require('./run-processes');
const { POLL_MS } = require('./strike');
const { RUN_MS } = require('./time-limits');

/**
 * @typedef {object} Struck A process that was struck.
 * @property {number} rank
 * @property {number} pid
 * @property {number} at A `Date.now()`.
 */

/** A run that loses ranks, and is to go on to its end. */
class ElasticRun extends ChaosRun {
  /** @type {Struck[]} */
  struck = [];

  async strike() {
    let fallen = 0;
    for (const loss of this.plan.elastic.losses) {
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
    this.isStruck = fallen === this.plan.elastic.losses.length;
  }

  /** False if the run ended before. */
  async untilDue({ at, ranks }) {
    const lossTime = this.struck.at(-1)?.at ?? Date.now();
    const isDue = () => {
      if ('step' in at) return this.reports.some(({ hashes }) => hashes.some(({ step }) => step >= at.step));
      if ('lossMs' in at) return Date.now() >= lossTime + at.lossMs;
      const [rank] = ranks;
      const starts = this.reports[rank].facts.filter(fact => 'pid' in fact);
      if ('replacedMs' in at) return starts.length > 1 && Date.now() >= starts.at(-1).at + at.replacedMs;
      return starts.length > 0 && performance.now() >= this.startedAt + at.startMs;
    };
    while (!isDue()) {
      if (this.processes.hasEnded(LAUNCHER)) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  async untilEnded() {
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
  get toldMs() {
    return this.struck.flatMap(({ pid, at }) => {
      const steps = this.reports.flatMap(report =>
        report.lives.filter(life => life.pid !== pid).flatMap(life => life.facts),
      );
      const next = Math.min(...steps.filter(fact => 'step' in fact && fact.at > at).map(fact => fact.at));
      return next === Infinity ? [] : [next - at];
    });
  }

  /** @returns {import('./chaos-run').Observed & { struck: Struck[], launcherEnd: number | string | null }} */
  observed() {
    const { struck, toldMs } = this;
    const tookMs = struck.length === 0 ? undefined : Date.now() - struck[0].at;
    return { ...super.observed(), struck, toldMs, tookMs, launcherEnd: this.processes.endOf(LAUNCHER) };
  }
}

module.exports = { ElasticRun };

const { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { findFreePort } = require('../../dist/launcher/master-port');
const { CutLink } = require('./cut-link');
const { FAULT_KINDS } = require('./fault-kinds');
const { release } = require('./leaving');
const { leftovers } = require('./leftovers');
const { processesOf, signalTo } = require('./processes');
const { ReportFile } = require('./report-file');
const { LATE, LAUNCHER, RunProcesses } = require('./run-processes');
const { POLL_MS, strike } = require('./strike');
const { allowedMs, RUN_MS, SLACK_MS } = require('./time-limits');

/**
 * @typedef {object} Observed What came of a run.
 * @property {ReportFile[]} reports By rank.
 * @property {ReportFile | undefined} late Of the process that was started with the rank of another.
 * @property {(number | string | null | undefined)[]} ends Exit code or signal by rank, of those that had no launcher.
 * @property {number[]} overdue Processes that were not done in time, by rank; LAUNCHER, LATE.
 * @property {boolean} isStruck Whether the fault, the first of the plan, struck anybody: else the run had ended before.
 * @property {(number | undefined)[]} endedAt By rank, when it was seen that it had ended: a `Date.now()`.
 * @property {number} allowedMs How long a rank may take to end when it is to.
 * @property {boolean} formed Whether the ring stood when it was struck.
 * @property {number | undefined} lossTime When ranks were struck so that something is lost: a `Date.now()`.
 * @property {number[]} toldMs From the loss until each rank whose ring stood, and which it did not strike, told of it.
 * @property {number | undefined} tookMs From the loss, if there was one, to the end of the last that it did not strike
 *   itself, of those that leave at once.
 * @property {number | string | null | undefined} lateEnd How that process ended.
 * @property {number} heldUpMs The longest that this process did not get to look, and its proxies to pass anything on.
 * @property {string[]} left What is left of the run, and should not.
 * @property {string[]} leftByKill Folders that nobody was left to remove: of ranks that were killed before their ring
 *   stood, of a launcher whose ranks were ending.
 * @property {string} output What the processes wrote.
 */

/** One run: starts the ranks, strikes as planned, and waits for their ends. */
class ChaosRun {
  links = new Map();
  overdue = [];
  endedAt = [];
  isStruck = false;
  heldUpMs = 0;

  /** @param {import('./plan').Plan} plan @param {string} [bug] What a rank shall do wrong, see rank.js. */
  constructor(plan, bug) {
    this.plan = plan;
    this.bug = bug;
    this.folder = mkdtempSync(path.join(tmpdir(), 'grc-')); // short: the paths of unix sockets are limited
    this.temporary = path.join(this.folder, 't');
    mkdirSync(this.temporary);
    writeFileSync(path.join(this.folder, 'plan.json'), JSON.stringify(plan));
    this.reports = Array.from({ length: plan.ranks }, (_, rank) => this.reportOf(`rank-${rank}`));
    this.launcherReport = this.reportOf('launcher');
  }

  /** @returns {Promise<Observed>} */
  async run() {
    try {
      await this.start();
      let striking = true;
      const strikes = this.strike().finally(() => (striking = false));
      await Promise.all([strikes, this.untilEnded(() => striking)]);
      return this.observed();
    } finally {
      this.abandon();
    }
  }

  /** Has all happen that is planned. */
  async strike() {
    [this.isStruck] = await Promise.all(this.plan.faults.map(fault => strike(this, fault)));
  }

  /** Ends all processes of the run, and removes its folder. */
  abandon() {
    for (const pid of processesOf(this.folder)) signalTo(pid, 'SIGKILL');
    for (const report of [...this.reports, this.late, this.launcherReport]) report?.close();
    for (const link of this.links.values()) link.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async start() {
    const { plan, folder, reports } = this;
    for (const { kind, ranks } of plan.faults) {
      if (FAULT_KINDS[kind].link) this.links.set(ranks[0], await CutLink.open());
    }
    const ports = Object.fromEntries([...this.links].map(([rank, link]) => [rank, link.ports]));
    const variables = {
      ...{ TMPDIR: this.temporary, GRADRING_CHAOS_FOLDER: folder, GRADRING_CHAOS_PROXIES: JSON.stringify(ports) },
      ...(this.bug !== undefined && { GRADRING_CHAOS_PLANT: this.bug }),
    };
    this.processes = new RunProcesses(plan, { folder, port: await findFreePort('127.0.0.1'), reports, variables });
    this.startedAt = performance.now();
    this.processes.start();
  }

  startLate(rank) {
    this.lateRank = rank;
    this.late = this.reportOf(`late-rank-${rank}`);
    this.processes.startLate(rank);
  }

  /** From now on the ranks are to end. */
  noteLoss() {
    this.lossAt = performance.now();
    this.lossTime = Date.now();
    this.formedMsWhenStruck = this.formedMs;
  }

  get ranksHaveEnded() {
    return [...this.reports.keys()].every(rank => this.processes.hasEnded(rank));
  }

  reportOf(name) {
    return new ReportFile(path.join(this.folder, `${name}.jsonl`));
  }

  /** Waits for all that are to end by themselves, until time is up for them; then ends what is left. */
  async untilEnded(isStriking) {
    const { processes } = this;
    const stopped = this.struckBy(({ kind }) => kind === 'stop');
    // A launcher ends a rank that is stopped when others have lost it. When all others had done all, it waits for it.
    const isLost = () => !this.reports.every((report, rank) => stopped.includes(rank) || report.told('done'));
    const staysForGood = number =>
      this.plan.launcher
        ? stopped.length > 0 && (number === LAUNCHER || stopped.includes(number)) && !isLost()
        : stopped.includes(number);
    const dying = this.struckBy(({ kind }) => FAULT_KINDS[kind].ends);
    const running = () => processes.numbers.filter(number => !staysForGood(number) && !processes.hasEnded(number));
    const leaving = () => running().filter(number => number !== LAUNCHER && !this.stays(number));
    let polledAt = performance.now();
    while (isStriking() || running().length > 0) {
      await sleep(POLL_MS);
      this.heldUpMs = Math.max(this.heldUpMs, performance.now() - polledAt);
      polledAt = performance.now();
      this.poll();
      const survivors = leaving().filter(number => !dying.includes(number));
      if (survivors.length === 0 && this.releasedAt === undefined) this.release();
      if (performance.now() < this.dueAt(dying)) continue;
      if (this.releasedAt === undefined) {
        // Those that stay would wait for them.
        this.overdue = leaving();
        for (const number of this.overdue) processes.signal(number, 'SIGKILL');
        this.release();
        continue;
      }
      this.overdue.push(...running());
      break;
    }
    const end = number => processes.signal(number, 'SIGKILL');
    processes.numbers.filter(number => number !== LAUNCHER).forEach(end);
    // It may have waited for one of them, and has something to clear away.
    const patientUntil = performance.now() + SLACK_MS;
    const launcherMayEnd = this.plan.launcher && !this.overdue.includes(LAUNCHER);
    while (launcherMayEnd && !processes.hasEnded(LAUNCHER) && performance.now() < patientUntil) await sleep(POLL_MS);
    processes.numbers.forEach(end);
    while (!processes.numbers.every(number => processes.hasEnded(number))) await sleep(POLL_MS);
    this.poll();
  }

  /** Whether it lives on until the others have ended. */
  stays(number) {
    return this.plan.leaves[number === LATE ? this.lateRank : number] === 'stay';
  }

  release() {
    this.releasedAt = performance.now();
    release(this.folder);
  }

  /** When all that are not dying must have ended. */
  dueAt(dying) {
    const stayed = this.releasedAt === undefined ? 0 : this.releasedAt + this.plan.stayMs + SLACK_MS;
    return Math.max(stayed, this.leaveDueAt(dying));
  }

  /** When those of them must that do not stay. */
  leaveDueAt(dying) {
    const { plan, lossAt, formedMsWhenStruck } = this;
    if (this.reports.every((report, rank) => dying.includes(rank) || report.told('meets')))
      this.metAt ??= performance.now();
    const metAt = formedMsWhenStruck === undefined ? this.metAt : 0;
    if (lossAt === undefined || metAt === undefined) return this.startedAt + RUN_MS;
    return Math.max(lossAt, metAt) + allowedMs(plan, formedMsWhenStruck);
  }

  poll() {
    for (const report of [...this.reports, this.late, this.launcherReport]) report?.poll();
    for (const [rank, link] of this.links) {
      const report = this.reports[rank];
      link.tellTargets({
        link: report.told('listening'),
        out: report.told('listeningBeside'),
        in: report.told('connectingBeside'),
      });
    }
    for (const rank of this.reports.keys()) {
      if (this.processes.hasEnded(rank)) this.endedAt[rank] ??= Date.now();
    }
    if (this.reports.every(report => report.told('formed'))) this.formedMs ??= performance.now() - this.startedAt;
  }

  struckBy(condition) {
    return this.plan.faults.filter(condition).flatMap(({ ranks }) => ranks);
  }

  get toldMs() {
    const struck = this.struckBy(({ kind }) => !FAULT_KINDS[kind].link && FAULT_KINDS[kind].outcome === 'loss');
    const suffered = struck.flatMap(rank => this.reports[rank].toldAt('suffers') ?? []);
    const lossTime = Math.min(this.lossTime, ...suffered);
    return this.reports.flatMap((report, rank) => {
      const toldAt = struck.includes(rank) ? undefined : report.toldAt('error');
      return toldAt === undefined ? [] : [toldAt - lossTime];
    });
  }

  /** @returns {Observed} */
  observed() {
    const { plan, reports, late, overdue, processes, lossAt, releasedAt, isStruck, endedAt } = this;
    const hasLeavers = plan.leaves.some(way => way !== 'stay');
    return {
      ...{ reports, late, overdue, isStruck, endedAt, lossTime: this.lossTime },
      allowedMs: allowedMs(plan, this.formedMs),
      formed: lossAt === undefined || this.formedMsWhenStruck !== undefined,
      ends: reports.map((_, rank) => processes.endOf(rank)),
      toldMs: this.formedMsWhenStruck === undefined ? [] : this.toldMs,
      tookMs:
        lossAt === undefined || releasedAt === undefined || !hasLeavers ? undefined : Math.max(0, releasedAt - lossAt),
      lateEnd: processes.endOf(LATE),
      heldUpMs: this.heldUpMs,
      ...leftovers(this),
      output: readFileSync(path.join(this.folder, 'output'), 'utf8'),
    };
  }
}

module.exports = { ChaosRun };

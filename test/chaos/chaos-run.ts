import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from '../../src/rendezvous/master-port';
import { CutLink } from './cut-link';
import { FAULT_KINDS } from './fault-kinds';
import type { Fault, Plan } from './plan';
import { release } from './leaving';
import { leftovers } from './leftovers';
import { processesOf, signalTo } from './processes';
import { ReportFile } from './report-file';
import { type End, LATE, LAUNCHER, RunProcesses } from './run-processes';
import { POLL_MS, strike } from './strike';
import { allowedMs, RUN_MS, SLACK_MS } from './time-limits';

/** What came of a run. */
export interface Observed {
  /** By rank. */
  readonly reports: readonly ReportFile[];
  /** Of the process that was started with the rank of another. */
  readonly late?: ReportFile | undefined;
  /** Exit code or signal by rank, of those that had no launcher. */
  readonly ends: readonly End[];
  /** Processes that were not done in time: by rank, LAUNCHER or LATE. */
  readonly overdue: readonly number[];
  /** Whether the fault, the first of the plan, struck anything: else the run had ended before. */
  readonly isStruck: boolean;
  /** By rank, when it was seen that it had ended: a `Date.now()`. */
  readonly endedAt: readonly (number | undefined)[];
  /** How long a rank may take to end when it is to. */
  readonly allowedMs: number;
  /** Whether the ring stood when it was struck. */
  readonly formed: boolean;
  /** When ranks were struck so that something is lost: a `Date.now()`. */
  readonly lossTime: number | undefined;
  /** From the loss until each rank whose ring stood, and which it did not strike, reported it. */
  readonly toldMs: readonly number[];
  /**
   * From the loss, if there was one, to the end of the last rank that it did not strike itself, of those that leave at
   * once.
   */
  readonly tookMs: number | undefined;
  /** How the process with the rank of another ended. */
  readonly lateEnd?: End;
  /** The longest time in which this process did not get to look, nor its proxies to pass anything on. */
  readonly heldUpMs: number;
  /** What is left of the run, and should not. */
  readonly left: readonly string[];
  /**
   * Folders that nobody was left to remove: of ranks that were killed before their ring stood, of a launcher whose
   * ranks were ending.
   */
  readonly leftByKill: readonly string[];
  /** What the processes wrote. */
  readonly output: string;
}

/** One run: starts the ranks, strikes as planned, and waits for their ends. */
export class ChaosRun {
  readonly links = new Map<number, CutLink>();
  readonly folder = mkdtempSync(path.join(tmpdir(), 'grc-')); // short: the paths of unix sockets are limited
  readonly temporary = path.join(this.folder, 't');
  readonly reports: readonly ReportFile[];
  readonly launcherReport: ReportFile;
  late: ReportFile | undefined;
  processes!: RunProcesses;
  /** A `performance.now()`. */
  startedAt = 0;
  /** A `Date.now()`. */
  lossTime: number | undefined;
  protected overdue: number[] = [];
  protected isStruck = false;
  protected heldUpMs = 0;
  private readonly endedAt: (number | undefined)[] = [];
  private lateRank: number | undefined;
  private lossAt: number | undefined;
  private metAt: number | undefined;
  private formedMs: number | undefined;
  private formedMsWhenStruck: number | undefined;
  private releasedAt: number | undefined;

  /** @param bug What a rank shall do wrong: see rank.ts. */
  constructor(
    readonly plan: Plan,
    private readonly bug?: string,
  ) {
    mkdirSync(this.temporary);
    writeFileSync(path.join(this.folder, 'plan.json'), JSON.stringify(plan));
    this.reports = Array.from({ length: plan.ranks }, (_, rank) => this.reportOf(`rank-${rank}`));
    this.launcherReport = this.reportOf('launcher');
  }

  async run(): Promise<Observed> {
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
  protected async strike(): Promise<void> {
    const struck = await Promise.all(this.plan.faults.map(fault => strike(this, fault)));
    this.isStruck = struck[0]!;
  }

  /** Ends all processes of the run, and removes its folder. */
  abandon(): void {
    for (const pid of processesOf(this.folder)) signalTo(pid, 'SIGKILL');
    for (const report of [...this.reports, this.late, this.launcherReport]) report?.close();
    for (const link of this.links.values()) link.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async start(): Promise<void> {
    const { plan, folder, reports } = this;
    for (const { kind, ranks } of plan.faults) {
      if (FAULT_KINDS[kind].link) this.links.set(ranks[0]!, await CutLink.open());
    }
    const ports = Object.fromEntries([...this.links].map(([rank, link]) => [rank, link.ports]));
    const variables = {
      ...{ TMPDIR: this.temporary, CHAOS_FOLDER: folder, CHAOS_PROXIES: JSON.stringify(ports) },
      ...(this.bug !== undefined && { CHAOS_PLANT: this.bug }),
    };
    this.processes = new RunProcesses(plan, { folder, port: await findFreePort('127.0.0.1'), reports, variables });
    this.startedAt = performance.now();
    this.processes.start();
  }

  startLate(rank: number): void {
    this.lateRank = rank;
    this.late = this.reportOf(`late-rank-${rank}`);
    this.processes.startLate(rank);
  }

  /** From now on the ranks are to end. */
  noteLoss(): void {
    this.lossAt = performance.now();
    this.lossTime = Date.now();
    this.formedMsWhenStruck = this.formedMs;
  }

  get ranksHaveEnded(): boolean {
    return [...this.reports.keys()].every(rank => this.processes.hasEnded(rank));
  }

  private reportOf(name: string): ReportFile {
    return new ReportFile(path.join(this.folder, `${name}.jsonl`));
  }

  /** Waits for all that are to end by themselves, until time is up for them; then ends what is left. */
  protected async untilEnded(isStriking: () => boolean): Promise<void> {
    const { processes } = this;
    const stopped = this.struckBy(({ kind }) => kind === 'stop');
    // A launcher ends a rank that is stopped when others have lost it. When all others had done all, it waits for it.
    const isLost = () => !this.reports.every((report, rank) => stopped.includes(rank) || report.told('done'));
    const staysForGood = (number: number) =>
      this.plan.launcher
        ? stopped.length > 0 && (number === LAUNCHER || stopped.includes(number)) && !isLost()
        : stopped.includes(number);
    const dying = this.struckBy(({ kind }) => FAULT_KINDS[kind].ends !== undefined);
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
    const end = (number: number) => processes.signal(number, 'SIGKILL');
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
  private stays(number: number): boolean {
    return this.plan.leaves[number === LATE ? this.lateRank! : number] === 'stay';
  }

  private release(): void {
    this.releasedAt = performance.now();
    release(this.folder);
  }

  /** When all that are not dying must have ended. */
  private dueAt(dying: readonly number[]): number {
    const stayed = this.releasedAt === undefined ? 0 : this.releasedAt + this.plan.stayMs + SLACK_MS;
    return Math.max(stayed, this.leaveDueAt(dying));
  }

  /** When those of them must that do not stay. */
  private leaveDueAt(dying: readonly number[]): number {
    const { plan, lossAt, formedMsWhenStruck } = this;
    if (this.reports.every((report, rank) => dying.includes(rank) || report.told('meets')))
      this.metAt ??= performance.now();
    const metAt = formedMsWhenStruck === undefined ? this.metAt : 0;
    if (lossAt === undefined || metAt === undefined) return this.startedAt + RUN_MS;
    return Math.max(lossAt, metAt) + allowedMs(plan, formedMsWhenStruck);
  }

  protected poll(): void {
    for (const report of [...this.reports, this.late, this.launcherReport]) report?.poll();
    for (const [rank, link] of this.links) {
      const report = this.reports[rank]!;
      link.tellTargets({ link: report.told('listening'), lane: report.told('connectingLane') });
    }
    for (const rank of this.reports.keys()) {
      if (this.processes.hasEnded(rank)) this.endedAt[rank] ??= Date.now();
    }
    if (this.reports.every(report => report.told('formed'))) this.formedMs ??= performance.now() - this.startedAt;
  }

  private struckBy(condition: (fault: Fault) => boolean): number[] {
    return this.plan.faults.filter(condition).flatMap(({ ranks }) => ranks);
  }

  protected get toldMs(): number[] {
    const struck = this.struckBy(({ kind }) => !FAULT_KINDS[kind].link && FAULT_KINDS[kind].outcome === 'loss');
    const suffered = struck.flatMap(rank => this.reports[rank]!.toldAt('suffers') ?? []);
    const lossTime = Math.min(this.lossTime ?? Infinity, ...suffered);
    return this.reports.flatMap((report, rank) => {
      const toldAt = struck.includes(rank) ? undefined : report.toldAt('error');
      return toldAt === undefined ? [] : [toldAt - lossTime];
    });
  }

  protected observed(): Observed {
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

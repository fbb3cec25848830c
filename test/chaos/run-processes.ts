import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import path from 'node:path';
import { deadlineMs } from './fault-kinds';
import { isAlive, processesOf, signalTo } from './processes';
import type { Plan } from './plan';
import type { ReportFile } from './report-file';
import { connectMs, CONNECT_LATE_MS } from './time-limits';

const CLI = require.resolve('../../src/cli');
const RANK = path.join(__dirname, 'rank.js');
const PRELOADS = ['rank-preload.js', 'start-witness.js'].map(name => path.join(__dirname, name));

/** Stand for processes that are no rank of the plan's, where ranks are numbered. */
export const LAUNCHER = -1;
export const LATE = -2;

/** Where a run takes place. */
export interface RunPlace {
  readonly folder: string;
  readonly port: number;
  /** By rank. */
  readonly reports: readonly ReportFile[];
  /** Environment variables of all processes. */
  readonly variables: Readonly<Record<string, string>>;
}

/** How a process ended: its exit code, or the name of the signal. Undefined if it is unknown. */
export type End = number | string | null | undefined;

/** The processes of a run: the ranks, the launcher if they have one, and a second process with the rank of another. */
export class RunProcesses {
  /** Those that this process has started. */
  private readonly children = new Map<number, ChildProcess>();

  constructor(
    private readonly plan: Plan,
    private readonly place: RunPlace,
  ) {}

  start(): void {
    const { ranks, launcher, elastic } = this.plan;
    if (launcher) {
      const options: (string | number)[] = ['-n', ranks, '--grace-ms', 1000, '--master-port', this.place.port];
      if (elastic !== undefined) options.push('--min', elastic.min, '--max-restarts', elastic.maxRestarts);
      this.spawn(LAUNCHER, [CLI, 'run', ...options.map(String), RANK], this.environment());
    } else {
      for (let rank = 0; rank < ranks; rank++) this.spawn(rank, [RANK], this.environment(rank));
    }
  }

  /** Starts a process with the rank of another, which may still run. */
  startLate(rank: number): void {
    const more = { CHAOS_LATE: '1', GRADRING_CONNECT_TIMEOUT_MS: String(CONNECT_LATE_MS) };
    this.spawn(LATE, [RANK], { ...this.environment(rank), ...more });
  }

  /** All that were started, by number. */
  get numbers(): number[] {
    return [...new Set([...this.place.reports.keys(), ...this.children.keys()])];
  }

  signal(number: number, name: NodeJS.Signals): void {
    const pid = this.pidOf(number);
    if (pid !== undefined && !this.hasEnded(number)) signalTo(pid, name);
  }

  pidOf(number: number): number | undefined {
    return this.children.get(number)?.pid ?? this.place.reports[number]?.last('pid');
  }

  /** A launcher's rank is not this process's child: it is gone when its number is, or, if it has told none, all are. */
  hasEnded(number: number): boolean {
    const child = this.children.get(number);
    if (child !== undefined) return child.exitCode !== null || child.signalCode !== null;
    const pid = this.pidOf(number);
    if (pid !== undefined) return !isAlive(pid);
    return this.hasEnded(LAUNCHER) && processesOf(this.place.folder).length === 0;
  }

  /** How a child ended. Undefined for a launcher's rank. */
  endOf(number: number): End {
    const child = this.children.get(number);
    return child?.signalCode ?? child?.exitCode;
  }

  private spawn(number: number, args: readonly string[], env: NodeJS.ProcessEnv): void {
    const output = openSync(path.join(this.place.folder, 'output'), 'a');
    const child = spawn(process.execPath, args, {
      ...{ env, cwd: this.place.folder },
      stdio: ['ignore', output, output],
    });
    this.children.set(number, child);
    closeSync(output);
  }

  private environment(rank?: number): NodeJS.ProcessEnv {
    const { plan, place } = this;
    const outer = Object.entries(process.env).filter(([name]) => !/^(GRADRING_|NODE_OPTIONS|JEST)/.test(name));
    return {
      ...Object.fromEntries(outer),
      ...place.variables,
      NODE_OPTIONS: PRELOADS.map(file => `--require=${JSON.stringify(file)}`).join(' '),
      ...{ GRADRING_TRANSPORT: plan.transport, GRADRING_HEARTBEAT_TIMEOUT_MS: String(plan.heartbeatMs) },
      ...{
        GRADRING_TIMEOUT_MS: String(deadlineMs(plan.heartbeatMs)),
        GRADRING_CONNECT_TIMEOUT_MS: String(connectMs(plan)),
      },
      ...(plan.encrypted && { GRADRING_ENCRYPTION: 'on', GRADRING_RUN_TOKEN: '5a'.repeat(32) }),
      ...(rank !== undefined && {
        RANK: String(rank),
        WORLD_SIZE: String(plan.ranks),
        MASTER_PORT: String(place.port),
      }),
    };
  }
}

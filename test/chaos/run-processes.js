const { spawn } = require('node:child_process');
const { closeSync, openSync } = require('node:fs');
const path = require('node:path');
const { deadlineMs } = require('./fault-kinds');
const { isAlive, processesOf, signalTo } = require('./processes');
const { connectMs, CONNECT_LATE_MS } = require('./time-limits');

const CLI = path.join(__dirname, '../../dist/cli.js');
const RANK = path.join(__dirname, 'rank.js');
const PRELOADS = ['rank-preload.js', 'start-witness.js'].map(name => path.join(__dirname, name));

/** Stand for processes that are no rank of the plan's, where ranks are numbered. */
const LAUNCHER = -1;
const LATE = -2;

/** The processes of a run: the ranks, the launcher if they have one, and a second process with the rank of another. */
class RunProcesses {
  /** Those that this process has started. @type {Map<number, import('node:child_process').ChildProcess>} */
  children = new Map();

  /**
   * @param {import('./plan').Plan} plan
   * @param {object} place
   * @param {string} place.folder
   * @param {number} place.port
   * @param {import('./report-file').ReportFile[]} place.reports
   * @param {NodeJS.ProcessEnv} place.variables
   */
  constructor(plan, place) {
    this.plan = plan;
    this.place = place;
  }

  start() {
    const { ranks, launcher, elastic } = this.plan;
    if (launcher) {
      const options = ['-n', ranks, '--grace-ms', 1000, '--master-port', this.place.port];
      if (elastic !== undefined) options.push('--min', elastic.min, '--max-restarts', elastic.maxRestarts);
      this.spawn(LAUNCHER, [CLI, 'run', ...options.map(String), RANK], this.environment());
    } else {
      for (let rank = 0; rank < ranks; rank++) this.spawn(rank, [RANK], this.environment(rank));
    }
  }

  /** Starts a process with the rank of another, which may still run. */
  startLate(rank) {
    const more = { GRADRING_CHAOS_LATE: '1', GRADRING_CONNECT_TIMEOUT_MS: String(CONNECT_LATE_MS) };
    this.spawn(LATE, [RANK], { ...this.environment(rank), ...more });
  }

  /** All that were started, by number. */
  get numbers() {
    return [...new Set([...this.place.reports.keys(), ...this.children.keys()])];
  }

  signal(number, name) {
    const pid = this.pidOf(number);
    if (pid !== undefined && !this.hasEnded(number)) signalTo(pid, name);
  }

  pidOf(number) {
    return this.children.get(number)?.pid ?? this.place.reports[number]?.last('pid');
  }

  /** A launcher's rank is not this process's child: it is gone when its number is, or, if it has told none, all are. */
  hasEnded(number) {
    const child = this.children.get(number);
    if (child !== undefined) return child.exitCode !== null || child.signalCode !== null;
    const pid = this.pidOf(number);
    if (pid !== undefined) return !isAlive(pid);
    return this.hasEnded(LAUNCHER) && processesOf(this.place.folder).length === 0;
  }

  /** How a child ended: its exit code, or the name of the signal. Undefined for a launcher's rank. */
  endOf(number) {
    const { exitCode, signalCode } = this.children.get(number) ?? {};
    return signalCode ?? exitCode;
  }

  spawn(number, args, env) {
    const output = openSync(path.join(this.place.folder, 'output'), 'a');
    const stdio = ['ignore', output, output];
    this.children.set(number, spawn(process.execPath, args, { env, cwd: this.place.folder, stdio }));
    closeSync(output);
  }

  environment(rank) {
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

module.exports = { LATE, LAUNCHER, RunProcesses };

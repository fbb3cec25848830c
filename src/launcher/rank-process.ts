import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { GradringError } from '../errors';
import { ifOutOfFiles } from '../open-files';
import { giveUpWhenSilent, guardPipe } from './guarded-process';
import { LineSplitter } from './line-splitter';
import { signalGroup, signalProcess } from './signals';

/** How one rank ended. Exactly one of `exitCode` and `signal` is not null. */
export interface RankOutcome {
  readonly rank: number;
  readonly pid: number;
  readonly exitCode: number | null;
  /** The signal that ended it. */
  readonly signal: NodeJS.Signals | null;
  /** The host that it ran on, if the launcher chose one. */
  readonly host?: string;
  /**
   * Whether the connection to that host was lost before the rank ended. `signal` is then SIGKILL, because its host
   * kills a rank that has no launcher.
   */
  readonly connectionLost?: boolean;
  /** It was told to stop, and all ranks have saved. Its exit code is 75. */
  readonly hasSaved?: true;
  /** The time from the start of the rank to its end, in milliseconds. */
  readonly afterMs: number;
}

/** A rank that was started, here or on another host. */
export interface RunningRank {
  readonly rank: number;
  readonly pid: number;
  /** They end after the rank, in any case. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process runs; rejects with `ERR_RANK_FAILED` if the system could not start it. */
  readonly started: Promise<void>;
  /** Resolves when it has ended, and all that it told was heard. Never, if it could not be started. */
  readonly ended: Promise<RankOutcome>;
  /** Called with each line that the rank tells its launcher; see {@link RankNote}. */
  onTold: (line: string) => void;
  /** Asks the rank to end. The rank must tell its own children, if it wants to. */
  signal(signal: NodeJS.Signals): void;
  /** Ends the rank and its children at once. */
  kill(): void;
}

/** One rank: a process that leads a group. Everything that it starts in its group ends with it. */
export class RankProcess implements RunningRank {
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly started: Promise<void>;
  readonly ended: Promise<RankOutcome>;
  onTold: (line: string) => void = () => undefined;
  private readonly child: ChildProcess;
  private running = true;

  /**
   * @param begin Starts the process in a group of its own, as `spawnGuarded` does.
   * @throws GradringError `ERR_RANK_FAILED` if the system reports at once that it cannot start the process;
   *   `ERR_BUNDLED`.
   */
  constructor(
    readonly rank: number,
    begin: () => ChildProcess,
  ) {
    const launchedAt = performance.now();
    this.child = startProcess(rank, begin);
    const { stdout, stderr } = this.child;
    // A rank that could not be started because descriptors or memory ran out has no pipes.
    this.stdout = stdout as Readable;
    this.stderr = stderr as Readable;

    const told = this.hear();
    this.started = new Promise((resolve, reject) => {
      this.child.once('spawn', resolve);
      this.child.on('error', cause => reject(notStarted(rank, cause)));
    });
    this.ended = new Promise(resolve => {
      this.child.once('exit', (exitCode, signal) => {
        const pid = this.pid;
        this.running = false;
        signalGroup(pid, 'SIGKILL');
        for (const pipe of [stdout, stderr]) giveUpWhenSilent(pipe);
        const outcome = { rank, pid, exitCode, signal, afterMs: performance.now() - launchedAt };
        void told.then(() => resolve(outcome));
      });
    });
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** Settles when the rank can tell no more. */
  private async hear(): Promise<void> {
    const pipe = guardPipe(this.child);
    if (pipe === undefined) return;
    const splitter = new LineSplitter();
    pipe.on('data', (bytes: Buffer) => splitter.push(bytes).forEach(line => this.onTold(line)));
    await new Promise(resolve => pipe.once('close', resolve));
  }

  signal(signal: NodeJS.Signals): void {
    if (this.running && this.child.pid !== undefined) signalProcess(this.pid, signal);
  }

  kill(): void {
    if (this.running && this.child.pid !== undefined) signalGroup(this.pid, 'SIGKILL');
  }
}

function startProcess(rank: number, begin: () => ChildProcess): ChildProcess {
  try {
    return begin();
  } catch (cause) {
    if (cause instanceof GradringError) throw cause;
    throw notStarted(rank, cause as Error);
  }
}

function notStarted(rank: number, cause: Error): GradringError {
  return new GradringError(
    'ERR_RANK_FAILED',
    `Rank ${rank} could not be started: ${cause.message}.${ifOutOfFiles('the launcher', cause)}`,
    { rank },
    { cause },
  );
}

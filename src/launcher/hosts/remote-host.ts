import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { GradringError } from '../../errors';
import { type Deferred, deferred } from '../../transport/deferred';
import { ErrorOutput } from '../error-output';
import type { RankOutcome, RunningRank } from '../rank-process';
import {
  type AgentMessage,
  type Assignment,
  type LauncherMessage,
  messagesOf,
  type OutputName,
  OUTPUTS,
  type Readiness,
  type RemoteMeeting,
  toLine,
} from './agent-protocol';

/** The user's own options for `ssh` come first, and win. */
const SSH_OPTIONS = ['-T', '-oBatchMode=yes', '-oConnectTimeout=10', '-oServerAliveInterval=5'];

/** How long a host may take until its agent answers. */
const READY_MS = 60_000;

/** How long the connection to a host may take to end, when no rank runs any more. */
const END_MS = 5_000;

const CLI = path.join(__dirname, '../../cli.js');

/**
 * What the shell of a host runs. It has no single quotes, so that every shell passes it on as it is. `$1` is the
 * working directory, `$2` Node, `$3` gradring's program: each where it is on this host, or where the host has its own.
 */
const START_AGENT = [
  'cd "$1" 2>/dev/null',
  'n="$2"; [ -x "$n" ] || n=node',
  'c="$3"; [ -f "$c" ] || c=node_modules/gradring/dist/cli.js',
  '[ -f "$c" ] || { echo "gradring is not installed: neither $3 nor $PWD/$c is there" >&2; exit 127; }',
  'exec "$n" "$c" agent',
].join('; ');

/** The connection to the agent of a host: `ssh`, or a process here for `localhost`. */
export class RemoteHost {
  private readonly child: ChildProcess;
  private readonly ranks = new Map<number, RemoteRank>();
  private readonly errorOutput = new ErrorOutput();
  private readonly closed: Promise<string>;
  private readonly answers: Deferred<AgentMessage>[] = [];
  private isEnding = false;

  /** @param say Prints a line for the user. */
  constructor(
    readonly name: string,
    sshArgs: readonly string[],
    private readonly assignment: Assignment,
    private readonly say: (line: string) => void,
  ) {
    const [command, args] = isHere(name)
      ? [process.execPath, [CLI, 'agent']]
      : ['ssh', [...sshArgs, ...SSH_OPTIONS, name, remoteCommand(assignment.folder)]];
    // In a group of its own: Ctrl-C in a terminal must reach only the launcher.
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.child.stdin!.on('error', () => undefined); // the end of the process says enough
    this.closed = new Promise(resolve => {
      this.child.once('error', error => resolve(`${command} could not be started: ${error.message}`));
      this.child.once('close', (code, signal) => resolve(this.wordsForEnd(command, code, signal)));
    });
    void this.closed.then(words => this.onClosed(words));
    void this.listen().catch(() => undefined); // the end of the process says enough
    this.child.stderr!.on('data', (bytes: Buffer) => this.hearError(bytes));
  }

  /** Tells the host what its ranks are. Settles with what it has. @throws Error in words, without the host's name. */
  async prepare(): Promise<Readiness> {
    const timeout = setTimeout(() => this.child.kill(), READY_MS);
    try {
      return (await this.ask(this.assignment)) as Readiness;
    } finally {
      clearTimeout(timeout);
    }
  }

  /** A free TCP port of that host. */
  async findPort(host: string): Promise<number> {
    const answer = await this.ask({ kind: 'find port', host });
    if (answer.kind === 'port') return answer.port;
    throw new Error(answer.kind === 'no port' ? answer.message : 'it gave no port');
  }

  start(localRank: number, meeting: RemoteMeeting): RunningRank {
    const number = this.assignment.firstRank + localRank;
    const rank = new RemoteRank(number, this.name, message => this.tell(message));
    this.ranks.set(number, rank);
    this.tell({ kind: 'start', localRank, meeting });
    return rank;
  }

  /** Ends the connection, and with it what still runs there. */
  async close(): Promise<void> {
    this.isEnding = true;
    this.child.stdin!.end();
    const timeout = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
    await this.closed;
    clearTimeout(timeout);
  }

  private tell(message: LauncherMessage): void {
    this.child.stdin!.write(toLine(message));
  }

  private async ask(message: LauncherMessage): Promise<AgentMessage> {
    const answer = deferred<AgentMessage>();
    this.answers.push(answer);
    this.tell(message);
    return answer.promise;
  }

  private async listen(): Promise<void> {
    for await (const message of messagesOf<AgentMessage>(this.child.stdout!, line => this.hearLine(line))) {
      if (message.kind === 'ready' || message.kind === 'port' || message.kind === 'no port') {
        this.answers.shift()?.resolve(message);
      } else {
        const number = message.kind === 'ended' ? message.outcome.rank : message.rank;
        await this.ranks.get(number)?.hear(message);
      }
    }
  }

  private hearError(bytes: Buffer): void {
    const lines = bytes.toString().split('\n').filter(Boolean);
    for (const line of lines) this.hearLine(line);
  }

  /** What `ssh`, the shell or the agent itself has to say. While nothing runs, only an error shows it. */
  private hearLine(line: string): void {
    this.errorOutput.add([line]);
    if (this.ranks.size > 0) this.say(`gradring: ${this.name}: ${line}`);
  }

  private wordsForEnd(command: string, code: number | null, signal: NodeJS.Signals | null): string {
    const last = this.errorOutput.lastWords.lines.at(-1);
    const end = signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
    return `${command === 'ssh' ? 'ssh' : 'its agent'} ${end}${last === undefined ? '' : `: ${last}`}`;
  }

  private onClosed(words: string): void {
    for (const answer of this.answers.splice(0)) answer.reject(new Error(words));
    const running = [...this.ranks.values()].filter(({ isOver }) => !isOver);
    if (running.length > 0 && !this.isEnding) this.say(`gradring: the connection to ${this.name} is lost: ${words}.`);
    for (const rank of running) rank.lose(words);
  }
}

/** A rank on another host, as its agent tells of it. */
class RemoteRank implements RunningRank {
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  pid = 0;
  private readonly start = deferred<void>();
  private readonly end = deferred<RankOutcome>();
  isOver = false;

  constructor(
    readonly rank: number,
    private readonly host: string,
    private readonly tell: (message: LauncherMessage) => void,
  ) {}

  get started(): Promise<void> {
    return this.start.promise;
  }

  get ended(): Promise<RankOutcome> {
    return this.end.promise;
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isOver) this.tell({ kind: 'signal', rank: this.rank, signal });
  }

  kill(): void {
    if (!this.isOver) this.tell({ kind: 'kill', rank: this.rank });
  }

  /** Settles when its output is taken. */
  async hear(message: Exclude<AgentMessage, Readiness | { kind: 'port' | 'no port' }>): Promise<void> {
    switch (message.kind) {
      case 'started':
        this.pid = message.pid;
        return this.start.resolve();
      case 'not started':
        return this.fail(message.message);
      case 'output':
        return this.write(message.stream, Buffer.from(message.base64, 'base64'));
      case 'output end':
        return void this[message.stream].end();
      case 'ended':
        this.isOver = true;
        return this.end.resolve({ ...message.outcome, host: this.host });
    }
  }

  /** The connection to its host is lost. Its agent kills it, if it still runs. */
  lose(words: string): void {
    this.fail(words);
    for (const stream of OUTPUTS) this[stream].end();
    const { rank, pid, host } = this;
    this.end.resolve({ rank, pid, exitCode: null, signal: 'SIGKILL', afterMs: 0, host });
  }

  private fail(words: string): void {
    this.isOver = true;
    const message = `Rank ${this.rank} could not be started on ${this.host}: ${words}.`;
    this.start.reject(new GradringError('ERR_RANK_FAILED', message, { rank: this.rank }));
  }

  private async write(stream: OutputName, bytes: Buffer): Promise<void> {
    if (!this[stream].write(bytes)) await Promise.race([once(this[stream], 'drain'), once(this[stream], 'close')]);
  }
}

/** Whether a name of the list means this host, without `ssh`. */
export function isHere(name: string): boolean {
  return name === 'localhost' || name === hostname();
}

function remoteCommand(folder: string): string {
  const words = [START_AGENT, 'gradring', folder, process.execPath, CLI];
  return `exec sh -c ${words.map(word => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ')}`;
}

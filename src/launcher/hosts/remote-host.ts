import { type ChildProcess, spawn } from 'node:child_process';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { GradringError } from '../../errors';
import { ownFile } from '../../own-file';
import { plainLine } from '../../printable';
import { deferred } from '../../transport/deferred';
import { WakingTimer } from '../../waking-time';
import { ErrorOutput } from '../error-output';
import { relayLines } from '../line-splitter';
import type { PortWords } from '../../rendezvous/master-port';
import type { RankOutcome, RunningRank } from '../rank-process';
import type { RankStart } from '../rank-starter';
import { signalGroup } from '../signals';
import {
  type AgentMessage,
  type Assignment,
  type LauncherMessage,
  messagesOfAgent,
  noMessage,
  type OutputName,
  OUTPUTS,
  type Readiness,
  toLine,
} from './agent-protocol';

/** The user's own options for `ssh` come first, and win. */
const SSH_OPTIONS = ['-T', '-oBatchMode=yes', '-oConnectTimeout=10', '-oServerAliveInterval=5'];

/** How long what takes part in a connection may take, in ms. */
export interface HostTimes {
  /** The launcher says so often that it is alive. */
  readonly aliveMs: number;
  /** An agent that has heard nothing for this long ends, and its ranks with it. */
  readonly silentMs: number;
  /** The answer of an agent, the first one included. */
  readonly answerMs: number;
  /** The rest of the output of a rank that has ended, if the host sends nothing of it. */
  readonly restMs: number;
  /** The end of ranks that are killed, and of the connection when no rank runs any more. */
  readonly endMs: number;
}

export const HOST_TIMES: HostTimes = {
  aliveMs: 5_000,
  silentMs: 60_000,
  answerMs: 60_000,
  restMs: 60_000,
  endMs: 5_000,
};

/** How long what a process wrote may take to arrive after its end. */
const LAST_WORDS_MS = 500;

/**
 * What the shell of a host runs. It has no single quotes and no exclamation marks, so that every shell passes it on as
 * it is. `$1` is the working directory, `$2` Node, `$3` gradring's program: each where it is on this host, or where the
 * host has its own. A gradring that is only in the working directory may be another user's. `$4` are the options of
 * Node with which gradring finds its packages here, if Yarn's Plug'n'Play has them.
 */
const START_AGENT = [
  'cd "$1" 2>/dev/null',
  'n="$2"; [ -x "$n" ] || n=node',
  'c="$3"; o=; [ -f "$c" ] || { m=node_modules/gradring; c=$m/dist/cli.js',
  'o="$(find node_modules $m $m/dist $c -prune -user 0 -o -prune -user "$(id -u)" -o -prune -print 2>/dev/null)"; }',
  '[ -f "$c" ] || { echo "gradring is not installed: neither $3 nor $PWD/$c is there" >&2; exit 127; }',
  '[ -z "$o" ] || { echo "$PWD/$m is not used, because" $o "belongs to another user" >&2; exit 126; }',
  '[ -z "$4" ] || export NODE_OPTIONS="$4"',
  'exec "$n" "$c" agent',
].join('; ');

/** The connection to the agent of a host: `ssh`, or a process here for `localhost`. */
export class RemoteHost {
  private readonly child: ChildProcess;
  private readonly ranks = new Map<number, RemoteRank>();
  private readonly errorOutput = new ErrorOutput();
  private readonly over = deferred();
  private readonly alive: NodeJS.Timeout;
  /** Settles when both outputs have ended, and were heard. */
  private heard: Promise<unknown> = Promise.resolve();
  private answer = deferred<Answer>();
  /** Why the connection has ended. */
  private end: string | undefined;

  /** @param say Prints a line for the user. Settles when there is room for more. */
  constructor(
    readonly name: string,
    private readonly sshArgs: readonly string[],
    private readonly assignment: Omit<Assignment, 'silentMs'>,
    private readonly say: (line: string) => Promise<void>,
    private readonly times: HostTimes,
  ) {
    const [command, args] = isHere(name)
      ? [process.execPath, [ownFile('cli.js'), 'agent']]
      : ['ssh', [...sshArgs, ...SSH_OPTIONS, name, remoteCommand(assignment.folder)]];
    // An agent on this host has no connection by ssh. An inherited SSH_CONNECTION is that of the user's login.
    const env = isHere(name) ? { ...process.env, SSH_CONNECTION: undefined } : process.env;
    // In a group of its own: Ctrl-C in a terminal must reach only the launcher.
    this.child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.child.once('error', error => this.lose(`${command} could not be started: ${error.message}`));
    this.child.once('exit', (code, signal) => this.endSoon(() => this.wordsForEnd(code, signal)));
    if (this.child.pid !== undefined) this.listenToAll();
    this.alive = setInterval(() => this.tell({ kind: 'alive' }), times.aliveMs);
  }

  /** Tells the host what its ranks are. Settles with what it has. @throws Error in words, without the host's name. */
  async prepare(): Promise<Readiness> {
    const { silentMs } = this.times;
    return this.ask({ ...this.assignment, silentMs }, 'ready');
  }

  /**
   * A free TCP port of that host.
   *
   * @throws GradringError `ERR_ADDRESS_IN_USE` as {@link findFreePort}; Error in words if the host gives no answer.
   */
  async findPort(host: string, words: PortWords): Promise<number> {
    const answer = await this.ask({ kind: 'find port', host, words }, 'port', 'no port');
    if (answer.kind === 'port') return answer.port;
    throw new GradringError('ERR_ADDRESS_IN_USE', answer.message);
  }

  start(localRank: number, told: RankStart): RunningRank {
    const { endMs, restMs } = this.times;
    const number = this.assignment.firstRank + localRank;
    const rank = new RemoteRank(number, this.name, {
      tell: message => this.tell(message),
      awaitEnd: () => this.giveUpAfter(endMs, `it did not tell in ${endMs / 1000} s that its ranks are killed`),
      awaitRest: () =>
        new WakingTimer(() => {
          const words = `it did not send in ${restMs / 1000} s the rest of what rank ${number}, which has ended, wrote`;
          this.giveUp(words, true);
        }, restMs),
    });
    const begin = (): void => {
      if (rank.isOver) return; // it was ended meanwhile
      this.ranks.set(number, rank);
      rank.hasBegun = true;
      this.tell({ kind: 'start', localRank, told });
      if (this.end !== undefined) rank.lose(this.end);
      void this.inTime(rank.started).catch(() => undefined);
    };
    const before = this.ranks.get(number);
    if (before === undefined) begin();
    else void before.heard.then(begin); // what is heard of the rank until then is of its last process
    return rank;
  }

  /** Why the connection was lost, in words. Undefined if it stands. */
  get whyLost(): string | undefined {
    return this.end && `the connection to ${this.name} is lost`;
  }

  /** Ends the connection, and with it what still runs there. */
  async close(): Promise<void> {
    clearInterval(this.alive);
    this.child.stdin?.end();
    const timer = this.giveUpAfter(this.times.endMs, 'it did not end');
    await this.over.promise;
    timer.cancel();
  }

  private tell(message: LauncherMessage): void {
    if (this.child.pid !== undefined && this.end === undefined) this.child.stdin!.write(toLine(message));
  }

  /** One question at a time. */
  private async ask<K extends Answer['kind']>(
    message: LauncherMessage,
    ...kinds: readonly K[]
  ): Promise<Answer & { kind: K }> {
    if (this.end !== undefined) throw new Error(this.end);
    this.answer = deferred();
    this.tell(message);
    const answer = await this.inTime(this.answer.promise);
    if (!kinds.includes(answer.kind as K)) throw noMessage(answer);
    return answer as Answer & { kind: K };
  }

  private async inTime<T>(answer: Promise<T>): Promise<T> {
    const { answerMs } = this.times;
    const timer = this.giveUpAfter(answerMs, `it gave no answer in ${answerMs / 1000} s`);
    try {
      return await answer;
    } finally {
      timer.cancel();
    }
  }

  private listenToAll(): void {
    this.child.stdin!.on('error', () => undefined); // the end of the process says enough
    const relayed = relayLines(this.child.stderr!, lines => this.hearLines(lines));
    this.heard = Promise.all([relayed, this.listen()]);
  }

  private async listen(): Promise<void> {
    try {
      for await (const message of messagesOfAgent(this.child.stdout!, line => this.hearLines([line]))) {
        if (this.end === undefined) this.hear(message);
      }
    } catch (error) {
      this.giveUp((error as Error).message);
    }
  }

  private hear(message: AgentMessage): void {
    if (message.kind === 'ready' || message.kind === 'port' || message.kind === 'no port') {
      return this.answer.resolve(message);
    }
    const rank = this.ranks.get(message.kind === 'ended' ? message.outcome.rank : message.rank);
    if (rank?.hear(message) !== true) throw noMessage(message);
  }

  /** What `ssh`, the shell or the agent itself has to say. While nothing runs, only an error shows it. */
  private async hearLines(all: readonly string[]): Promise<void> {
    const lines = all.filter(line => line.trim() !== '');
    this.errorOutput.add(lines);
    if (this.ranks.size === 0) return;
    for (const line of lines) await this.say(`gradring: ${this.name}: ${plainLine(line)}`);
  }

  private wordsForEnd(code: number | null, signal: NodeJS.Signals | null): string {
    const { isError, lines } = this.errorOutput.lastWords;
    const last = (isError ? lines[0] : lines.at(-1))?.replace(/\.$/, '');
    const end = signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
    // With 255 ssh tells that it failed itself. It has no terminal to ask for anything.
    const command = ['ssh', ...this.sshArgs, this.name, 'true'].join(' ');
    const hint = code === 255 && this.ranks.size === 0 ? `. '${command}' must work without a question` : '';
    return `${isHere(this.name) ? 'its agent' : 'ssh'} ${end}${last === undefined ? '' : `: ${last}`}${hint}`;
  }

  /** The process has ended. What it left behind (ssh does with ControlPersist) may keep its error output open. */
  private endSoon(words: () => string): void {
    const end = (): void => {
      clearTimeout(timer);
      this.lose(words());
    };
    // A busy event loop may run this timer late, before it reads what has come meanwhile. An immediate runs after that.
    const timer = setTimeout(() => setImmediate(end), LAST_WORDS_MS);
    this.child.once('close', () => void this.heard.then(end));
  }

  private giveUpAfter(ms: number, words: string): WakingTimer {
    return new WakingTimer(() => this.giveUp(words), ms);
  }

  /** Does not wait for a connection that may hang. With it, the agent and its ranks end. */
  private giveUp(words: string, isLoss?: boolean): void {
    if (this.end !== undefined) return;
    if (this.child.pid !== undefined) signalGroup(this.child.pid, 'SIGKILL');
    this.lose(words, isLoss);
  }

  /**
   * The connection has ended. All that waits for it learns that.
   *
   * @param isLoss Whether something was still to come. The user is told.
   */
  private lose(words: string, isLoss = [...this.ranks.values()].some(rank => !rank.isOver)): void {
    if (this.end !== undefined) return;
    this.end = words;
    clearInterval(this.alive);
    const { stdin, stdout, stderr } = this.child;
    for (const stream of [stdin, stdout, stderr]) stream?.destroy(); // a process outside of the group may hold them
    this.answer.reject(new Error(words));
    if (isLoss) void this.say(`gradring: the connection to ${this.name} is lost: ${words}.`);
    for (const rank of this.ranks.values()) rank.lose(words);
    this.over.resolve();
  }
}

/** What a rank on another host needs of the connection. */
interface Line {
  readonly tell: (message: LauncherMessage) => void;
  /** Both give the host up, if the timer is not cancelled. */
  readonly awaitEnd: () => WakingTimer;
  readonly awaitRest: () => WakingTimer;
}

type Answer = Extract<AgentMessage, { kind: 'ready' | 'port' | 'no port' }>;

const NOT_NEEDED = 'it was not needed any more';

/** A rank on another host, as its agent tells of it. */
class RemoteRank implements RunningRank {
  readonly stdout = this.outputNamed('stdout');
  readonly stderr = this.outputNamed('stderr');
  pid = 0;
  isOver = false;
  /** Whether its agent was told to start it. */
  hasBegun = false;
  onTold: (line: string) => void = () => undefined;
  private readonly launchedAt = performance.now();
  private readonly start = deferred();
  private readonly end = deferred<RankOutcome>();
  private killTimer: WakingTimer | undefined;
  private restTimer: WakingTimer | undefined;
  /** Streams whose next piece was asked for and has not come. */
  private readonly asked = new Set<OutputName>();
  /** Streams of which more may come. */
  private readonly open = new Set<OutputName>(OUTPUTS);
  private readonly lastHeard = deferred();

  constructor(
    readonly rank: number,
    private readonly host: string,
    private readonly line: Line,
  ) {}

  get started(): Promise<void> {
    return this.start.promise;
  }

  get ended(): Promise<RankOutcome> {
    return this.end.promise;
  }

  /** Settles when all of its process was heard. */
  get heard(): Promise<void> {
    return this.lastHeard.promise;
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isOver) return;
    if (!this.hasBegun) return this.fail(NOT_NEEDED);
    this.line.tell({ kind: 'signal', rank: this.rank, signal });
  }

  kill(): void {
    if (this.isOver) return;
    if (!this.hasBegun) return this.fail(NOT_NEEDED);
    this.line.tell({ kind: 'kill', rank: this.rank });
    this.killTimer ??= this.line.awaitEnd();
  }

  /** Returns whether an agent may say that now. */
  hear(message: Exclude<AgentMessage, Answer>): boolean {
    const hasStarted = this.pid !== 0;
    switch (message.kind) {
      case 'started':
        if (hasStarted) return false;
        this.pid = message.pid;
        this.start.resolve();
        return true;
      case 'not started':
        if (hasStarted) return false;
        this.fail(message.message);
        this.lastHeard.resolve();
        return true;
      case 'output':
        // More than is asked for would fill the memory.
        if (!this.asked.delete(message.stream)) return false;
        this[message.stream].push(Buffer.from(message.base64, 'base64'));
        this.awaitRest();
        return true;
      case 'output end':
        this.asked.delete(message.stream);
        this[message.stream].push(null);
        this.awaitRest();
        this.open.delete(message.stream);
        if (this.open.size === 0) this.lastHeard.resolve();
        return true;
      case 'told':
        this.onTold(message.line);
        return true;
      case 'ended': {
        if (!hasStarted || this.isOver) return false;
        const { rank, pid, host } = this;
        const { exitCode, signal, afterMs } = message.outcome;
        this.settle();
        this.awaitRest();
        this.end.resolve({ rank, pid, exitCode, signal, host, afterMs });
        return true;
      }
    }
  }

  /** The connection to its host is lost. Its agent kills it, if it still runs. */
  lose(words: string): void {
    this.restTimer?.cancel();
    for (const stream of OUTPUTS) this[stream].push(null);
    this.lastHeard.resolve();
    if (this.isOver) return;
    this.fail(words);
    if (this.pid === 0) return; // no process of it is known
    const { rank, pid, host } = this;
    const afterMs = performance.now() - this.launchedAt;
    this.end.resolve({ rank, pid, exitCode: null, signal: 'SIGKILL', host, connectionLost: true, afterMs });
  }

  /** Without effect on a rank that has started. */
  private fail(words: string): void {
    this.settle();
    const message = `Rank ${this.rank} could not be started on ${this.host}: ${words}.`;
    this.start.reject(new GradringError('ERR_RANK_FAILED', message, { rank: this.rank }));
  }

  private settle(): void {
    this.isOver = true;
    this.killTimer?.cancel();
  }

  /** Asks the agent for a piece when there is room for one. */
  private outputNamed(stream: OutputName): Readable {
    const read = () => {
      this.asked.add(stream);
      this.line.tell({ kind: 'more', rank: this.rank, stream });
      this.awaitRest();
    };
    return new Readable({ read });
  }

  /** When the process has ended, what it wrote, or the end of that, must come. */
  private awaitRest(): void {
    this.restTimer?.cancel();
    if (this.isOver && this.asked.size > 0) this.restTimer = this.line.awaitRest();
  }
}

/** Whether a name of the list means this host, without `ssh`. */
export function isHere(name: string): boolean {
  return name === 'localhost' || name === hostname();
}

function remoteCommand(folder: string): string {
  const finds = process.versions['pnp'] === undefined ? '' : (process.env['NODE_OPTIONS'] ?? '');
  const words = [START_AGENT, 'gradring', folder, process.execPath, ownFile('cli.js'), finds];
  return `exec sh -c ${words.map(word => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ')}`;
}

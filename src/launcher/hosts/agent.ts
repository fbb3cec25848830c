import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { CommandModule } from 'yargs';
import { attempt } from '../../attempt';
import { hostId } from '../../rendezvous/host-identity';
import { deferred } from '../../transport/deferred';
import { readVersion } from '../../version';
import { findFreePort, type PortWords } from '../../rendezvous/master-port';
import { LocalRanks } from '../local-ranks';
import type { RankProcess } from '../rank-process';
import type { RankStart } from '../rank-starter';
import { typescriptOptions } from '../typescript-loader';
import {
  type AgentMessage,
  type Assignment,
  type LauncherMessage,
  messagesOfLauncher,
  type OutputName,
  OUTPUTS,
  type Readiness,
  toLine,
} from './agent-protocol';

/** `gradring agent`: what `gradring run -H` starts on each host, and talks to. */
export const agentCommand: CommandModule = {
  command: 'agent',
  describe: false, // not for users
  handler: async () => {
    await runAgent(process.stdin, process.stdout);
    process.exit(); // a process that a rank left behind may still hold a pipe open
  },
};

/**
 * Starts the ranks of this host when the launcher says so, and tells it what they write and how they end. If the
 * launcher is gone, or cannot be heard, they are killed.
 */
async function runAgent(input: Readable, output: Writable): Promise<void> {
  output.on('error', () => undefined); // then the input ends, too
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined); // the launcher tells the ranks
  output.write('\n'); // a login shell may have printed something without an end of line
  const agent = new Agent(message => void output.write(toLine(message)));
  const watch = new SilenceWatch(ms => {
    console.error(`the launcher was silent for ${ms / 1000} s, so the ranks were ended`); // it may wake up
    input.destroy();
  });
  try {
    for await (const message of messagesOfLauncher(input)) {
      watch.heard(message);
      agent.hear(message);
    }
  } catch {
    // Nothing more can be heard.
  } finally {
    watch.end();
    agent.end();
  }
}

/** Notices that the launcher is silent: its host was cut off, or is asleep, which TCP tells only after hours. */
class SilenceWatch {
  private timer: NodeJS.Timeout | undefined;
  private isSuspicious = false;

  constructor(private readonly onSilence: (ms: number) => void) {}

  heard(message: LauncherMessage): void {
    if (message.kind === 'assign') this.timer = setInterval(() => this.check(message.silentMs), message.silentMs / 2);
    this.isSuspicious = false;
    this.timer?.refresh();
  }

  end(): void {
    clearInterval(this.timer);
  }

  /** Twice: when this process was stopped for a while, a timer comes before what has arrived meanwhile. */
  private check(silentMs: number): void {
    if (this.isSuspicious) this.onSilence(silentMs);
    this.isSuspicious = true;
  }
}

type Say = (message: AgentMessage) => void;

class Agent {
  private firstRank = 0;
  private here: LocalRanks | undefined;
  private readonly ranks = new Map<number, AgentRank>();

  constructor(private readonly say: Say) {}

  hear(message: LauncherMessage): void {
    switch (message.kind) {
      case 'assign':
        return this.take(message);
      case 'find port':
        return void this.findPort(message.host, message.words);
      case 'start':
        return this.start(message.localRank, message.told);
      case 'more':
        return this.ranks.get(message.rank)?.more(message.stream);
      case 'signal':
        return this.ranks.get(message.rank)?.process.signal(message.signal);
      case 'kill':
        return this.ranks.get(message.rank)?.process.kill();
      case 'alive':
        return;
    }
  }

  end(): void {
    for (const rank of this.ranks.values()) rank.process.kill();
    this.here?.close();
  }

  private take(assignment: Assignment): void {
    const readiness = readinessFor(assignment);
    try {
      this.firstRank = assignment.firstRank;
      this.here = new LocalRanks({ ...assignment, nodeArgs: nodeArgsHere(assignment) });
      this.say(readiness);
    } catch (error) {
      this.say({ ...readiness, fault: (error as Error).message });
    }
  }

  private async findPort(host: string, words: PortWords): Promise<void> {
    try {
      this.say({ kind: 'port', port: await findFreePort(host, words) });
    } catch (error) {
      this.say({ kind: 'no port', message: (error as Error).message });
    }
  }

  private start(localRank: number, told: RankStart): void {
    const rank = this.firstRank + localRank;
    try {
      this.ranks.set(rank, new AgentRank(this.here!.start(localRank, told), this.say));
    } catch (error) {
      this.say(notStarted(rank, error as Error));
    }
  }
}

/** A rank of this host, of which it tells the launcher. */
class AgentRank {
  /** Resolved when the launcher wants the next piece of a stream. */
  private readonly wanted = { stdout: deferred(), stderr: deferred() };

  constructor(
    readonly process: RankProcess,
    private readonly say: Say,
  ) {
    process.onTold = line => say({ kind: 'told', rank: process.rank, line });
    process.started.then(
      () => this.tell(),
      (error: Error) => say(notStarted(process.rank, error)),
    );
  }

  more(stream: OutputName): void {
    this.wanted[stream].resolve();
  }

  private tell(): void {
    const { rank, pid, ended } = this.process;
    this.say({ kind: 'started', rank, pid });
    void ended.then(outcome => this.say({ kind: 'ended', outcome }));
    for (const stream of OUTPUTS) void this.relay(stream);
  }

  private async relay(stream: OutputName): Promise<void> {
    const { rank } = this.process;
    try {
      for await (const chunk of this.process[stream]) {
        await this.wanted[stream].promise;
        this.wanted[stream] = deferred();
        this.say({ kind: 'output', rank, stream, base64: (chunk as Buffer).toString('base64') });
      }
    } catch {
      // Given up, or broken: nothing more will come.
    }
    this.say({ kind: 'output end', rank, stream });
  }
}

/** With the system's own words: the launcher makes the sentence. */
function notStarted(rank: number, error: Error): AgentMessage {
  return { kind: 'not started', rank, message: ((error.cause ?? error) as Error).message };
}

function readinessFor({ folder, script }: Assignment): Readiness {
  const [launcherAddress, , ownAddress] = (process.env['SSH_CONNECTION'] ?? '').split(' ');
  return {
    kind: 'ready',
    hostId: hostId(),
    gradring: readVersion(),
    node: process.version,
    cores: availableParallelism(),
    hasFolder: attempt(() => process.chdir(folder) ?? true) === true,
    script: attempt(() => hashOf(script)),
    fault: undefined,
    launcherAddress: launcherAddress || undefined,
    ownAddress: ownAddress || undefined,
  };
}

/** With the loader for TypeScript that this host has. On the launcher's host the same path may be another user's. */
function nodeArgsHere({ script, nodeArgs, env }: Assignment): string[] {
  return [...nodeArgs, ...typescriptOptions(script, nodeArgs, { ...process.env, ...env })];
}

/** SHA-256 of a file. */
export function hashOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

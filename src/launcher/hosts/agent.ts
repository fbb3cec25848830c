import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import type { CommandModule } from 'yargs';
import { makeSocketFolder } from '../../rendezvous/socket-folder';
import { readVersion } from '../../version';
import { findFreePort } from '../master-port';
import { rankCommand } from '../rank-command';
import { RankProcess } from '../rank-process';
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

/** `gradring agent`: what `gradring run -H` starts on each host, and talks to. */
export const agentCommand: CommandModule = {
  command: 'agent',
  describe: false, // nobody types it
  handler: () => runAgent(process.stdin, process.stdout),
};

/**
 * Starts the ranks of this host when the launcher says so, and tells it what they write and how they end. If the
 * launcher is gone, they are killed.
 */
export async function runAgent(input: Readable, output: Writable): Promise<void> {
  output.on('error', () => undefined); // then the input ends, too
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined); // the launcher tells the ranks
  const agent = new Agent(output);
  try {
    for await (const message of messagesOf<LauncherMessage>(input, () => undefined)) await agent.hear(message);
  } finally {
    agent.end();
  }
}

class Agent {
  private assignment: Assignment | undefined;
  private readonly socketFolder = attempt(makeSocketFolder);
  private readonly ranks = new Map<number, RankProcess>();

  constructor(private readonly output: Writable) {}

  async hear(message: LauncherMessage): Promise<void> {
    switch (message.kind) {
      case 'assign':
        this.assignment = message;
        return this.say(readinessFor(message));
      case 'find port':
        return this.say(
          await findFreePort(message.host, '--master-port').then(
            port => ({ kind: 'port', port }) as const,
            (error: Error) => ({ kind: 'no port', message: error.message }) as const,
          ),
        );
      case 'start':
        return this.start(message.localRank, message.meeting);
      case 'signal':
        return this.ranks.get(message.rank)?.signal(message.signal);
      case 'kill':
        return this.ranks.get(message.rank)?.kill();
    }
  }

  end(): void {
    for (const rank of this.ranks.values()) rank.kill();
    if (this.socketFolder !== undefined) rmSync(this.socketFolder, { recursive: true, force: true });
  }

  private async start(localRank: number, { masterAddr, masterPort, runId, runToken, colors }: RemoteMeeting) {
    const plan = { ...this.assignment!, masterAddr };
    const meeting = { masterPort, runId, runToken, socketFolder: this.socketFolder };
    const rank = plan.firstRank + localRank;
    try {
      const child = new RankProcess(rankCommand(plan, meeting, { colors }, localRank));
      await child.started;
      this.ranks.set(rank, child);
      await this.say({ kind: 'started', rank, pid: child.pid });
      for (const stream of OUTPUTS) void this.relay(rank, stream, child[stream]);
      void child.ended.then(outcome => this.say({ kind: 'ended', outcome }));
    } catch (error) {
      await this.say({ kind: 'not started', rank, message: (error as Error).message });
    }
  }

  private async relay(rank: number, stream: OutputName, source: Readable): Promise<void> {
    try {
      for await (const chunk of source) {
        await this.say({ kind: 'output', rank, stream, base64: (chunk as Buffer).toString('base64') });
      }
    } catch {
      // The pipe is broken: nothing more will come.
    }
    await this.say({ kind: 'output end', rank, stream });
  }

  /** Settles when the launcher takes more. */
  private async say(message: AgentMessage): Promise<void> {
    if (!this.output.destroyed && !this.output.write(toLine(message))) {
      await Promise.race([once(this.output, 'drain'), once(this.output, 'close')]).catch(() => undefined);
    }
  }
}

function readinessFor({ folder, script }: Assignment): Readiness {
  const [launcherAddress, , ownAddress] = (process.env['SSH_CONNECTION'] ?? '').split(' ');
  return {
    kind: 'ready',
    gradring: readVersion(),
    node: process.version,
    hasFolder: attempt(() => process.chdir(folder) ?? true) === true,
    script: attempt(() => hashOf(script)),
    launcherAddress: launcherAddress || undefined,
    ownAddress: ownAddress || undefined,
  };
}

/** SHA-256 of a file. */
export function hashOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}

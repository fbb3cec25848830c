import type { Readable } from 'node:stream';
import type { PortWords } from '../master-port';
import type { RankOutcome } from '../rank-process';

/*
 * What the launcher and the agent of a host say to each other, over the standard streams of `ssh`:
 *
 *   launcher                      agent
 *   assign                   →
 *                            ←    ready
 *   find port                →                     to the first host
 *                            ←    port | no port
 *   start                    →                     for each rank
 *                            ←    started | not started
 *   more                     →                     for each piece of a stream
 *                            ←    output
 *                            ←    output end       for each stream, when it has ended
 *                            ←    told             for each line that a rank tells its launcher
 *                            ←    ended            for each rank, as soon as its process has ended
 *   signal, kill             →
 *   alive                    →                     every few seconds
 *
 * Each end reads at once all that comes. So output that is not taken holds up nothing else, because the agent sends a
 * piece only when it is asked for more. `ended` may come before the end of the output: which rank was the first to
 * fail does not depend on how fast its output is taken.
 */

/** What the ranks of a host are. The launcher's first message. */
export interface Assignment {
  readonly kind: 'assign';
  /** The working directory of the ranks. */
  readonly folder: string;
  readonly script: string;
  readonly args: readonly string[];
  /** Without what this host adds for TypeScript. */
  readonly nodeArgs: readonly string[];
  /** How many ranks run on this host; the number of the first one; how many there are in all. */
  readonly ranks: number;
  readonly firstRank: number;
  readonly worldSize: number;
  readonly gpusPerRank: number;
  readonly env: Readonly<Record<string, string>>;
  /** The agent ends when it has heard nothing for so long. */
  readonly silentMs: number;
}

/** What must be the same on all hosts, and how they reach each other. The agent's first message. */
export interface Readiness {
  readonly kind: 'ready';
  /** Equal for two names of one host. */
  readonly hostId: string;
  readonly gradring: string;
  readonly node: string;
  readonly hasFolder: boolean;
  /** SHA-256 of the script. Undefined if it cannot be read. */
  readonly script: string | undefined;
  /** Why this host cannot run the script. */
  readonly fault: string | undefined;
  /** The addresses of the launcher's host and of this one, on the connection between them. Undefined without `ssh`. */
  readonly launcherAddress: string | undefined;
  readonly ownAddress: string | undefined;
}

/** How the ranks meet. */
export interface RemoteMeeting {
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly runId: string;
  readonly runToken: string;
  readonly colors: { readonly FORCE_COLOR?: string };
}

export type LauncherMessage =
  | Assignment
  | { readonly kind: 'find port'; readonly host: string; readonly words: PortWords }
  | { readonly kind: 'start'; readonly localRank: number; readonly meeting: RemoteMeeting }
  /** The next piece of a stream is wanted. */
  | { readonly kind: 'more'; readonly rank: number; readonly stream: OutputName }
  | { readonly kind: 'signal'; readonly rank: number; readonly signal: NodeJS.Signals }
  | { readonly kind: 'kill'; readonly rank: number }
  | { readonly kind: 'alive' };

export type AgentMessage =
  | Readiness
  | { readonly kind: 'port'; readonly port: number }
  | { readonly kind: 'no port'; readonly message: string }
  | { readonly kind: 'started'; readonly rank: number; readonly pid: number }
  | { readonly kind: 'not started'; readonly rank: number; readonly message: string }
  | { readonly kind: 'output'; readonly rank: number; readonly stream: OutputName; readonly base64: string }
  | { readonly kind: 'output end'; readonly rank: number; readonly stream: OutputName }
  | { readonly kind: 'told'; readonly rank: number; readonly line: string }
  | { readonly kind: 'ended'; readonly outcome: RankOutcome };

export type OutputName = 'stdout' | 'stderr';
export const OUTPUTS: readonly OutputName[] = ['stdout', 'stderr'];

/** A message is a line of JSON. */
export const toLine = (message: LauncherMessage | AgentMessage): string => `${JSON.stringify(message)}\n`;

/**
 * The messages of the other end, until it closes the stream.
 *
 * @param onOther Called for each line that is no message: what a shell prints when it starts.
 */
export async function* messagesOf<Message extends LauncherMessage | AgentMessage>(
  input: Readable,
  onOther: (line: string) => void,
): AsyncGenerator<Message> {
  let rest = '';
  for await (const text of input.setEncoding('utf8')) {
    // Only here: a message may have other characters that end a line elsewhere, such as U+2028.
    const lines = `${rest}${text as string}`.split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      const message = messageIn(line);
      if (message === undefined) onOther(line);
      else yield message as Message;
    }
  }
}

function messageIn(line: string): { kind: string } | undefined {
  if (!line.startsWith('{"kind":')) return undefined;
  try {
    return JSON.parse(line) as { kind: string };
  } catch {
    return undefined;
  }
}

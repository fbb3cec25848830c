import { isIP } from 'node:net';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { attempt } from '../../attempt';
import { MAX_PORT } from '../../environment/network';
import { Lines } from '../../lines';
import { printable } from '../../printable';
import { type Check, isBetween, isBoolean, isCount, isName, isOneOf, isOptional, isText, isWith } from '../../shape';
import type { PortWords } from '../../rendezvous/master-port';
import type { RankPlan } from '../local-ranks';
import type { RankOutcome } from '../rank-process';
import type { RankStart } from '../rank-starter';

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

/** What the ranks of a host are. The launcher's first message. `nodeArgs` lack what the host adds for TypeScript. */
export interface Assignment extends RankPlan {
  readonly kind: 'assign';
  /** The agent ends when it has heard nothing for this long. */
  readonly silentMs: number;
}

/**
 * What must be the same on all hosts, and how they reach each other. The agent's first message. That of another version
 * may lack some of it.
 */
export interface Readiness {
  readonly kind: 'ready';
  /** Equal for two names of one host. */
  readonly hostId?: string | undefined;
  readonly gradring?: string | undefined;
  readonly node?: string | undefined;
  readonly cores?: number | undefined;
  readonly hasFolder?: boolean | undefined;
  /** SHA-256 of the script. Undefined if it cannot be read. */
  readonly script?: string | undefined;
  /** Why this host cannot run the script. */
  readonly fault?: string | undefined;
  /** The addresses of the launcher's host and of this one, on the connection between them. Undefined without `ssh`. */
  readonly launcherAddress?: string | undefined;
  readonly ownAddress?: string | undefined;
}

export type LauncherMessage =
  | Assignment
  | { readonly kind: 'find port'; readonly host: string; readonly words: PortWords }
  | { readonly kind: 'start'; readonly localRank: number; readonly told: RankStart }
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

/** The most UTF-16 units in a message. One with output has some 90,000; the first to an agent has the environment. */
const LONGEST_MESSAGE = { agent: 2 ** 20, launcher: 2 ** 24 };

/**
 * The messages of an agent, until it closes the stream.
 *
 * @param onOther Called for each line that is no message: what a shell prints when it starts.
 * @throws Error in words, for something that no agent sends.
 */
export async function* messagesOfAgent(
  input: Readable,
  onOther: (line: string) => Promise<void>,
): AsyncGenerator<AgentMessage> {
  for await (const line of linesOf(input, LONGEST_MESSAGE.agent)) {
    const message = agentMessageIn(line);
    if (message === undefined) await onOther(line);
    else yield message;
  }
}

/**
 * The message in a line of an agent. Undefined if the line does not begin as one.
 *
 * @throws Error in words, for a message that no agent sends.
 */
export function agentMessageIn(line: string): AgentMessage | undefined {
  const message = valueIn(line);
  if (message === undefined || isAgentMessage(message)) return message;
  throw noMessage(message);
}

/** The messages of the launcher, which is trusted, until it closes the stream. */
export async function* messagesOfLauncher(input: Readable): AsyncGenerator<LauncherMessage> {
  for await (const line of linesOf(input, LONGEST_MESSAGE.launcher)) {
    const message = valueIn(line);
    if (message !== undefined) yield message as LauncherMessage;
  }
}

/** The error for something that no agent sends, or not at this moment. */
export function noMessage(message: object): Error {
  return new Error(`it sent ${printable(JSON.stringify(message), LONGEST_QUOTE)}, which is no message`);
}

/** How much of a message an error quotes. */
const LONGEST_QUOTE = 200;

/** Only `\n` ends a line: a message may have other characters that end one elsewhere, such as U+2028. */
async function* linesOf(input: Readable, longest: number): AsyncGenerator<string> {
  const lines = new Lines(longest);
  try {
    for await (const text of input.setEncoding('utf8')) yield* lines.push(text as string);
  } catch (error) {
    throw error instanceof RangeError ? new Error(`it sent ${error.message}`) : error;
  }
}

/** The value of a line that begins as a message. */
function valueIn(line: string): object | undefined {
  return line.startsWith('{"kind":') ? attempt(() => JSON.parse(line) as object) : undefined;
}

const isExitCode: Check<number | null> = (value): value is number | null => value === null || isBetween(0, 255)(value);
const isSignal = isOneOf([null, ...(Object.keys(constants.signals) as NodeJS.Signals[])]);
const isPid = isBetween(1, 2 ** 31 - 1);
const isAddress: Check<string> = (value): value is string => isText(value) && isIP(value) !== 0;
const isTime: Check<number> = (value): value is number => Number.isFinite(value) && (value as number) >= 0;
const isBase64: Check<string> = (value): value is string => isText(value) && /^[A-Za-z0-9+/]{2,}={0,2}$/.test(value);

const hasOutcome = isWith<Pick<RankOutcome, 'rank' | 'pid' | 'exitCode' | 'signal' | 'afterMs'>>({
  ...{ rank: isCount, pid: isPid, exitCode: isExitCode, signal: isSignal, afterMs: isTime },
});
const isOutcome: Check<RankOutcome> = (value): value is RankOutcome =>
  hasOutcome(value) && (value.exitCode === null) !== (value.signal === null);

const [rank, stream] = [isCount, isOneOf(OUTPUTS)];

/** What each kind of message has. */
const CHECKS: { readonly [K in AgentMessage['kind']]: Check<Omit<AgentMessage & { kind: K }, 'kind'>> } = {
  ready: isWith<Omit<Readiness, 'kind'>>({
    ...{ hostId: isOptional(isName), gradring: isOptional(isName), node: isOptional(isName) },
    ...{ cores: isOptional(isCount) },
    ...{ hasFolder: isOptional(isBoolean), script: isOptional(isName), fault: isOptional(isText) },
    ...{ launcherAddress: isOptional(isAddress), ownAddress: isOptional(isAddress) },
  }),
  port: isWith({ port: isBetween(1, MAX_PORT) }),
  'no port': isWith({ message: isText }),
  started: isWith({ rank, pid: isPid }),
  'not started': isWith({ rank, message: isText }),
  output: isWith({ rank, stream, base64: isBase64 }),
  'output end': isWith({ rank, stream }),
  told: isWith({ rank, line: isText }),
  ended: isWith({ outcome: isOutcome }),
};

function isAgentMessage(message: object): message is AgentMessage {
  const { kind } = message as { kind: unknown };
  return typeof kind === 'string' && Object.hasOwn(CHECKS, kind) && CHECKS[kind as AgentMessage['kind']](message);
}

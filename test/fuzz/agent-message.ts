import { isIP } from 'node:net';
import { constants } from 'node:os';
import { type AgentMessage, agentMessageIn, toLine } from '../../src/launcher/hosts/agent-protocol';
import { printable } from '../../src/printable';
import type { Target } from './fuzz';
import { mutateJsonOrBytes } from './mutate-json';
import { isCount } from './payload-checker';
import { demand, Violation } from './refusal';

const MESSAGES: AgentMessage[] = [
  {
    ...{ kind: 'ready', hostId: '0123456789abcdef', gradring: '0.1.0', node: 'v20.20.2', hasFolder: true },
    ...{ script: 'ab'.repeat(32), launcherAddress: '10.0.0.5', ownAddress: 'fd00::7' },
  },
  { kind: 'port', port: 29_500 },
  { kind: 'no port', message: 'All ports are in use.' },
  { kind: 'started', rank: 3, pid: 4711 },
  { kind: 'not started', rank: 3, message: 'spawn E2BIG' },
  { kind: 'output', rank: 3, stream: 'stderr', base64: Buffer.from('a line\n').toString('base64') },
  { kind: 'output end', rank: 3, stream: 'stdout' },
  { kind: 'ended', outcome: { rank: 3, pid: 4711, exitCode: 1, signal: null, afterMs: 12.5 } },
  { kind: 'ended', outcome: { rank: 3, pid: 4711, exitCode: null, signal: 'SIGKILL', afterMs: 12.5 } },
];

/** Lines that a host of `gradring run -H` sends. */
export const agentMessageTarget: Target = {
  name: 'agent-message',
  seeds: () => MESSAGES.map(message => ({ bytes: Buffer.from(toLine(message).trimEnd()) })),
  mutate: mutateJsonOrBytes,
  run: bytes => {
    let message: AgentMessage | undefined;
    try {
      message = agentMessageIn(Buffer.from(bytes).toString('utf8'));
    } catch (error) {
      const { message: words } = error as Error;
      demand(/^it sent .*, which is no message$/.test(words), `The reader threw ${(error as Error).stack}`);
      demand(printable(words) === words && words.length < 300, 'The words cannot be shown.');
      return { outcome: 'no message' };
    }
    if (message === undefined) return { outcome: 'another line' };
    demandSane(message);
    return { outcome: `accepted: ${message.kind}` };
  },
};

function demandSane(message: AgentMessage): void {
  const { kind } = message;
  const isOfRank = kind === 'started' || kind === 'not started' || kind === 'output' || kind === 'output end';
  if (isOfRank) demand(isCount(message.rank, Number.MAX_SAFE_INTEGER), 'The rank is none.');
  if (kind === 'port') demand(isCount(message.port - 1, 65_534), 'The port is none.');
  else if (kind === 'started') demand(isCount(message.pid - 1, 2 ** 31 - 2), 'The pid is none.');
  else if (kind === 'output') {
    demand(['stdout', 'stderr'].includes(message.stream), 'The stream does not exist.');
    demand(Buffer.from(message.base64, 'base64').length > 0, 'The output is none.');
  } else if (kind === 'output end') demand(['stdout', 'stderr'].includes(message.stream), 'The stream does not exist.');
  else if (kind === 'no port' || kind === 'not started') demand(typeof message.message === 'string', 'No words.');
  else if (kind === 'ended') {
    const { rank, pid, exitCode, signal, afterMs } = message.outcome;
    demand(isCount(rank, Number.MAX_SAFE_INTEGER) && isCount(pid - 1, 2 ** 31 - 2), 'The rank is none.');
    demand(signal === null ? isCount(exitCode, 255) : exitCode === null, 'The end is none, or two.');
    demand(signal === null || Object.hasOwn(constants.signals, signal), 'The signal does not exist.');
    demand(Number.isFinite(afterMs) && afterMs >= 0, 'The time is none.');
  } else if (kind === 'ready') {
    const { hostId = '', gradring = '', node = '', script = '', launcherAddress = '::', ownAddress = '::' } = message;
    for (const text of [hostId, gradring, node, script]) demand(printable(text, 512) === text, 'A text is none.');
    for (const address of [launcherAddress, ownAddress]) demand(isIP(address) !== 0, 'An address is none.');
  } else throw new Violation('The kind does not exist.');
}

import { isIP } from 'node:net';
import { ERROR_CODES } from '../../src/errors';
import { printable, printableLines } from '../../src/printable';
import {
  type DataHeader,
  decodeHeader,
  ELEMENT_TYPES,
  encodeHeader,
  FrameKind,
  type Header,
  MailStep,
  Operation,
  Purpose,
  REDUCTIONS,
  type StatusHeader,
} from '../../src/wire/frame';
import { ASKS } from '../../src/wire/rank-status';
import type { Target } from './fuzz';
import { isCount } from './payload-checker';
import { demand, refusalOf } from './refusal';

const RING = { ringId: 0x0123456789abcdefn, generation: 3, worldSize: 4 };

const HEADERS: Header[] = [
  {
    ...{ kind: FrameKind.Data, origin: 2, sequence: 2 ** 40, part: 77, checksum: 0xdeadbeef, parameter: 0xcafebabe },
    ...{ operation: Operation.Exchange, purpose: Purpose.Call, elementType: 'float32', reduction: 'mean' },
    ...{ elementCount: 25_557_032 },
  },
  {
    ...{ kind: FrameKind.Abort, origin: 1 },
    error: {
      code: 'ERR_PEER_LOST',
      message: 'Rank 3 is gone – for good.',
      details: { rank: 3, operation: 'barrier()' },
    },
  },
  {
    ...{ kind: FrameKind.Status, origin: 3, sequence: 2 ** 40, parameter: 0xcafebabe, elementCount: 25_557_032 },
    ...{ operation: Operation.Exchange, purpose: Purpose.FirstStep, elementType: 'float32', reduction: 'mean' },
    ...{ settings: { learningRate: 0.1, epoch: 3 } },
    ...{ isCalling: true, sinceMs: 2 ** 40, step: 12_345, round: 7, asks: 'report' },
  },
  {
    ...{ kind: FrameKind.Mail, step: MailStep.Part, origin: 3, other: 3, destination: 1, tag: 65_535, number: 2 ** 40 },
    ...{ part: 77, bytes: 2 ** 32, elementType: 'float32' },
  },
  { kind: FrameKind.Hello, origin: 3, pid: 4711, offer: { host: '10.0.0.5', port: 5000, token: 'ab'.repeat(64) } },
  ...([FrameKind.Goodbye, FrameKind.Seen] as const).map((kind): Header => ({ kind, origin: 3 })),
];

/** First parts of messages. */
export const frameTarget: Target = {
  name: 'frame',
  seeds: () => HEADERS.map(header => ({ bytes: encodeHeader(RING, header) })),
  run: bytes => {
    let header: Header;
    try {
      header = decodeHeader(RING, bytes);
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    demandSane(header);
    return { outcome: `accepted: ${FrameKind[header.kind]}` };
  },
};

function demandSane(header: Header): void {
  demand(isCount(header.origin, RING.worldSize - 1), 'The origin is no rank.');
  if (header.kind === FrameKind.Data) {
    demandSaneCall(header);
    for (const word of [header.part, header.checksum]) demand(isCount(word, 0xffffffff), 'A word is none.');
  } else if (header.kind === FrameKind.Status) {
    demandSaneCall(header);
    const { isCalling, sinceMs, step, round, asks } = header;
    demand(typeof isCalling === 'boolean' && isCount(round, 0xffffffff), 'The status is none.');
    demand(isCount(sinceMs, Number.MAX_SAFE_INTEGER), 'The time is none.');
    demand(step === undefined || isCount(step, Number.MAX_SAFE_INTEGER), 'The step is none.');
    demand(ASKS.includes(asks), 'The question does not exist.');
    const values = Object.values(header.settings ?? {});
    demand(values.length <= 32 && values.every(value => typeof value === 'number'), 'The settings are none.');
  } else if (header.kind === FrameKind.Mail) {
    const { step, destination, other, tag, number, part, bytes, elementType } = header;
    demand(MailStep[step] !== undefined && ELEMENT_TYPES.includes(elementType), 'The step or type does not exist.');
    demand(isCount(destination, RING.worldSize - 1) && isCount(other, RING.worldSize - 1), 'An end is no rank.');
    demand(isCount(tag, 0xffff) && isCount(part, 0xffffffff) && destination !== other, 'A number is none.');
    demand(isCount(number, Number.MAX_SAFE_INTEGER) && isCount(bytes, 2 ** 32), 'A number is none.');
  } else if (header.kind === FrameKind.Abort) {
    const { code, message, details } = header.error;
    demand(ERROR_CODES.includes(code), 'The code does not exist.');
    demand(printableLines(message) === message && message.length <= 32_768, 'The words cannot be shown.');
    const { rank = 0, rankOfRun, step = 0, ...texts } = details;
    demand(
      [rank, step].every(each => isCount(each, Number.MAX_SAFE_INTEGER)),
      'The rank or step is none.',
    );
    demand(rankOfRun === undefined, 'Frames have no rank of the run.');
    for (const text of Object.values(texts)) demand(printable(text) === text, 'A detail cannot be shown.');
  } else if (header.kind === FrameKind.Hello) {
    demand(header.pid > 0 && isCount(header.pid, 2 ** 31 - 1), 'The process id is none.');
    const { host, port, token } = header.offer ?? { host: '::1', port: 1, token: '' };
    demand(isIP(host) !== 0 && isCount(port - 1, 65_534) && /^[0-9a-f]*$/.test(token), 'The offer is none.');
  } else {
    demand([FrameKind.Goodbye, FrameKind.Seen].includes(header.kind), 'The kind does not exist.');
  }
}

function demandSaneCall(header: DataHeader | StatusHeader): void {
  demand(isCount(header.sequence, Number.MAX_SAFE_INTEGER), 'The sequence number is none.');
  demand(isCount(header.elementCount, Number.MAX_SAFE_INTEGER), 'The element count is none.');
  demand(isCount(header.parameter, 0xffffffff), 'The parameter is none.');
  demand(typeof Operation[header.operation] === 'string', 'The operation does not exist.');
  demand(typeof Purpose[header.purpose] === 'string', 'The purpose does not exist.');
  demand(ELEMENT_TYPES.includes(header.elementType), 'The element type does not exist.');
  demand(REDUCTIONS.includes(header.reduction), 'The reduction does not exist.');
}

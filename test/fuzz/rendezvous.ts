import { ERROR_CODES, type ErrorCode } from '../../src/errors';
import { printable, printableLines } from '../../src/printable';
import {
  decodeRendezvousMessage,
  encodeRendezvousMessage,
  type RendezvousMessage,
} from '../../src/wire/rendezvous-message';
import type { Target } from './fuzz';
import { mutateJsonOrBytes } from './mutate-json';
import { isCount } from './payload-checker';
import { demand, refusalOf } from './refusal';
import { MESSAGES } from './rendezvous-messages';

/** A whole number up to a bound, or something else. */
type FieldType = number | 'code' | 'words' | 'text' | 'texts' | 'numbers' | 'boolean' | 'ring';

/** What each kind holds: whole numbers up to a bound, or texts, of which there can be no more than bytes. */
const FIELDS: Record<RendezvousMessage['kind'], Record<string, FieldType>> = {
  join: {
    ...{ protocolVersion: 0xffffffff, runId: 'text', worldSize: 0xffffffff, rank: 0xffffffff, hostId: 'text' },
    ...{ agreed: 'texts', publicKey: 'text', newcomer: 'boolean', admits: 'boolean', patienceMs: 0xffffffff },
  },
  roster: { hostIds: 'texts', publicKeys: 'texts', members: 'numbers', generation: 0xffffffff },
  listening: { rank: 0xffffffff, endpoint: 'text' },
  start: { ringId: 'ring', endpoints: 'texts' },
  connected: { rank: 0xffffffff, lanes: 'boolean' },
  formed: { lanes: 'boolean' },
  leave: { rank: 0xffffffff },
  ask: { rank: 0xffffffff },
  waiting: { count: 0xffffffff },
  refuse: { code: 'code', message: 'words' },
};

/** Messages of the rendezvous. */
export const rendezvousTarget: Target = {
  name: 'rendezvous',
  seeds: () => MESSAGES.map(message => ({ bytes: Buffer.from(encodeRendezvousMessage(message)) })),
  mutate: mutateJsonOrBytes,
  run: bytes => {
    let message: RendezvousMessage;
    try {
      message = decodeRendezvousMessage([bytes]);
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    const fields = Object.entries(FIELDS[message.kind] ?? {});
    demand(fields.length > 0, 'The kind does not exist.');
    const values = message as object as Record<string, unknown>;
    for (const [name, type] of fields)
      demand(isSane(values[name], type, bytes.length), `${name} is ${String(values[name])}.`);
    return { outcome: `accepted: ${message.kind}` };
  },
};

function isSane(value: unknown, type: FieldType, byteCount: number): boolean {
  if (typeof type === 'number') return isCount(value, type);
  if (type === 'code') return ERROR_CODES.includes(value as ErrorCode);
  if (type === 'words') return typeof value === 'string' && printableLines(value, 16_000) === value;
  if (type === 'text') return typeof value === 'string' && printable(value, 512) === value && value.length <= byteCount;
  if (type === 'ring') return typeof value === 'string' && /^[0-9a-f]{16}$/.test(value);
  if (type === 'texts')
    return (
      Array.isArray(value) &&
      value.length <= byteCount &&
      value.join('').length <= byteCount &&
      value.every(each => isSane(each, 'text', byteCount))
    );
  if (type === 'numbers')
    return Array.isArray(value) && value.length <= byteCount && value.every(each => isCount(each, 0xffffffff));
  return typeof value === type;
}

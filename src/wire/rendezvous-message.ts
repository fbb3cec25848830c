import * as flatbuffers from 'flatbuffers';
import { ERROR_CODES, type ErrorCode } from '../errors';
import { printableLines } from '../printable';
import { isName, isOneOf } from '../shape';
import { checked, checkedRoot, checkTable, protocolError } from './frame';
import { Ask } from './generated/ask';
import { Formed } from './generated/formed';
import { Join } from './generated/join';
import { Leave } from './generated/leave';
import { Listening } from './generated/listening';
import { Message } from './generated/message';
import { Refuse } from './generated/refuse';
import { RendezvousMessage as MessageTable } from './generated/rendezvous-message';
import { Roster } from './generated/roster';
import { Connected } from './generated/connected';
import { Start } from './generated/start';
import { Waiting } from './generated/waiting';

/** The messages of the rendezvous. schemas/rendezvous.fbs says which end sends each of them, and when. */
export type RendezvousMessage =
  | {
      readonly kind: 'join';
      readonly protocolVersion: number;
      readonly runId: string;
      readonly worldSize: number;
      readonly rank: number;
      readonly hostId: string;
      readonly publicKey: string;
      readonly newcomer: boolean;
      readonly admits: boolean;
      readonly patienceMs: number;
      readonly agreed: readonly string[];
    }
  | {
      readonly kind: 'roster';
      readonly hostIds: readonly string[];
      readonly publicKeys: readonly string[];
      readonly members: readonly number[];
      readonly generation: number;
    }
  | { readonly kind: 'listening'; readonly rank: number; readonly endpoint: string }
  | { readonly kind: 'start'; readonly ringId: bigint; readonly endpoints: readonly string[] }
  | { readonly kind: 'connected'; readonly rank: number; readonly lanes: boolean }
  | { readonly kind: 'formed'; readonly lanes: boolean }
  | { readonly kind: 'leave' | 'ask'; readonly rank: number }
  | { readonly kind: 'waiting'; readonly count: number }
  | { readonly kind: 'refuse'; readonly code: ErrorCode; readonly message: string };

/** The words of a refusal are cut, because a coordinator takes 64 KiB from a member, in base64. In UTF-16 units. */
const LONGEST_WORDS = 16_000;

const isErrorCode = isOneOf(ERROR_CODES);

/** Packs a message. */
export function encodeRendezvousMessage(message: RendezvousMessage): Uint8Array {
  const builder = new flatbuffers.Builder(256);
  const [type, body] = encodeBody(builder, message);
  MessageTable.startRendezvousMessage(builder);
  MessageTable.addMessageType(builder, type);
  MessageTable.addMessage(builder, body);
  builder.finish(MessageTable.endRendezvousMessage(builder));
  return builder.asUint8Array();
}

/**
 * Unpacks a message.
 *
 * @throws GradringError `ERR_PROTOCOL` for bytes that are not such a message.
 */
export function decodeRendezvousMessage(bytes: Uint8Array): RendezvousMessage {
  const root = checkedRoot(bytes, 'rendezvous message', buffer => MessageTable.getRootAsRendezvousMessage(buffer));
  const body = <T extends { bb_pos: number }>(empty: T): T => {
    const table = root.message(empty) as T | null;
    if (table === null) throw new RangeError('no message');
    checkTable(bytes, table.bb_pos);
    return table;
  };
  return checked('rendezvous message', () => {
    switch (root.messageType()) {
      case Message.Join: {
        const join = body(new Join());
        return {
          kind: 'join' as const,
          protocolVersion: join.protocolVersion(),
          runId: text(join.runId()),
          worldSize: join.worldSize(),
          rank: join.rank(),
          hostId: text(join.hostId()),
          publicKey: text(join.publicKey()),
          newcomer: join.newcomer(),
          admits: join.admits(),
          patienceMs: join.patienceMs(),
          agreed: strings(join.agreedLength(), i => join.agreed(i), bytes),
        };
      }
      case Message.Roster: {
        const roster = body(new Roster());
        return {
          kind: 'roster' as const,
          hostIds: strings(roster.hostIdsLength(), i => roster.hostIds(i), bytes),
          publicKeys: strings(roster.publicKeysLength(), i => roster.publicKeys(i), bytes),
          members: numbers(roster.membersLength(), i => roster.members(i), bytes),
          generation: roster.generation(),
        };
      }
      case Message.Listening: {
        const listening = body(new Listening());
        return { kind: 'listening' as const, rank: listening.rank(), endpoint: text(listening.endpoint()) };
      }
      case Message.Start: {
        const start = body(new Start());
        const endpoints = strings(start.endpointsLength(), i => start.endpoints(i), bytes);
        return { kind: 'start' as const, ringId: start.ringId(), endpoints };
      }
      case Message.Connected: {
        const connected = body(new Connected());
        return { kind: 'connected' as const, rank: connected.rank(), lanes: connected.lanes() };
      }
      case Message.Formed:
        return { kind: 'formed' as const, lanes: body(new Formed()).lanes() };
      case Message.Leave:
        return { kind: 'leave' as const, rank: body(new Leave()).rank() };
      case Message.Ask:
        return { kind: 'ask' as const, rank: body(new Ask()).rank() };
      case Message.Waiting:
        return { kind: 'waiting' as const, count: body(new Waiting()).count() };
      case Message.Refuse: {
        const refuse = body(new Refuse());
        const code: unknown = refuse.code();
        if (!isErrorCode(code)) throw protocolError('names an error code that does not exist');
        return { kind: 'refuse' as const, code, message: printableLines(refuse.message() ?? '', LONGEST_WORDS) };
      }
      default:
        throw protocolError('is not a message of the rendezvous');
    }
  });
}

function encodeBody(builder: flatbuffers.Builder, message: RendezvousMessage): [Message, flatbuffers.Offset] {
  switch (message.kind) {
    case 'join': {
      const runId = builder.createString(message.runId);
      const hostId = builder.createString(message.hostId);
      const publicKey = builder.createString(message.publicKey);
      const agreed = Join.createAgreedVector(
        builder,
        message.agreed.map(value => builder.createString(value)),
      );
      const { protocolVersion, worldSize, rank, newcomer, admits, patienceMs } = message;
      const who = [protocolVersion, runId, worldSize, rank, hostId, publicKey] as const;
      return [Message.Join, Join.createJoin(builder, ...who, newcomer, admits, patienceMs, agreed)];
    }
    case 'roster': {
      const ids = message.hostIds.map(id => builder.createString(id));
      const hostIds = Roster.createHostIdsVector(builder, ids);
      const keys = message.publicKeys.map(key => builder.createString(key));
      const publicKeys = Roster.createPublicKeysVector(builder, keys);
      const members = Roster.createMembersVector(builder, [...message.members]);
      const { generation } = message;
      return [Message.Roster, Roster.createRoster(builder, hostIds, publicKeys, members, generation)];
    }
    case 'listening': {
      const endpoint = builder.createString(message.endpoint);
      return [Message.Listening, Listening.createListening(builder, message.rank, endpoint)];
    }
    case 'start': {
      const endpoints = message.endpoints.map(endpoint => builder.createString(endpoint));
      return [
        Message.Start,
        Start.createStart(builder, message.ringId, Start.createEndpointsVector(builder, endpoints)),
      ];
    }
    case 'connected':
      return [Message.Connected, Connected.createConnected(builder, message.rank, message.lanes)];
    case 'formed':
      return [Message.Formed, Formed.createFormed(builder, message.lanes)];
    case 'leave':
      return [Message.Leave, Leave.createLeave(builder, message.rank)];
    case 'ask':
      return [Message.Ask, Ask.createAsk(builder, message.rank)];
    case 'waiting':
      return [Message.Waiting, Waiting.createWaiting(builder, message.count)];
    case 'refuse': {
      const code = builder.createString(message.code);
      const words = builder.createString(printableLines(message.message, LONGEST_WORDS));
      return [Message.Refuse, Refuse.createRefuse(builder, code, words)];
    }
  }
}

/** A name. One that is not there is empty. Throws if it cannot be shown. */
function text(received: string | null): string {
  const name = received ?? '';
  if (!isName(name)) throw new RangeError('a name that cannot be shown');
  return name;
}

/**
 * A vector of strings. Throws if it claims more strings than the bytes can hold, or more text: all offsets could point
 * to one long string.
 */
function strings(length: number, at: (i: number) => string | null, bytes: Uint8Array): string[] {
  if (length < 0 || length * 4 > bytes.length) throw new RangeError('more strings than bytes');
  let characters = 0;
  return Array.from({ length }, (_, i) => {
    const received = at(i) ?? '';
    characters += received.length;
    if (characters > bytes.length) throw new RangeError('more text than bytes');
    return text(received);
  });
}

/** A vector of numbers. Throws if it claims more than the bytes can hold. */
function numbers(length: number, at: (i: number) => number | null, bytes: Uint8Array): number[] {
  if (length < 0 || length * 4 > bytes.length) throw new RangeError('more numbers than bytes');
  return Array.from({ length }, (_, i) => at(i) ?? 0);
}

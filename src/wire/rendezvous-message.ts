import { attempt } from '../attempt';
import { ERROR_CODES, type ErrorCode } from '../errors';
import { printableLines } from '../printable';
import { type Check, isBetween, isBoolean, isListOf, isName, isObject, isOneOf, isText, isWith } from '../shape';
import { PROTOCOL_VERSION, protocolError } from './frame';

/**
 * The messages by which ranks find each other, as JSON. Each rank is connected to the coordinator until the ring has
 * formed. In a static run, rank 0 holds the coordinator until then. In an elastic run the launcher holds it for the
 * whole run: the ranks are members, with the numbers of their launch, and each generation of the ring has ranks of its
 * own.
 */
interface Bodies {
  /** From each rank. */
  readonly join: {
    readonly protocolVersion: number;
    readonly runId: string;
    readonly worldSize: number;
    readonly rank: number;
    /** Equal for two processes exactly if a unix socket can connect them. */
    readonly hostId: string;
    /** CURVE key of this rank's links, as Z85. Empty without a run token. */
    readonly publicKey: string;
    /** Elastic: it has no state yet, and waits until the others let it in. */
    readonly newcomer: boolean;
    /** Elastic: it lets newcomers in now. */
    readonly admits: boolean;
    /** Elastic: how long it waits for the others. */
    readonly patienceMs: number;
    /** Options that must be the same on all ranks, in the order of RANK_OPTIONS. Empty: not set. */
    readonly agreed: readonly string[];
  };
  /** To all, when all have joined. The lists are by rank. */
  readonly roster: {
    readonly hostIds: readonly string[];
    readonly publicKeys: readonly string[];
    /** The same numbers if the run is not elastic. */
    readonly members: readonly number[];
    readonly generation: number;
  };
  /** From each rank: where it listens for its left neighbour. */
  readonly listening: { readonly rank: number; readonly endpoint: string };
  /** To all: where each rank listens. */
  readonly start: {
    /** 16 hexadecimal digits, in the header of all frames: random, so that two runs at one port never mix. */
    readonly ringId: string;
    readonly endpoints: readonly string[];
  };
  /** From each rank: its links are connected, and perhaps the lanes beside both of them are open. */
  readonly connected: { readonly rank: number; readonly lanes: boolean };
  /** To all: the links of all ranks are connected, and perhaps the lanes of all are open. */
  readonly formed: { readonly lanes: boolean };
  /** To a rank, instead of the above: the reason. From a rank: it cannot continue, which the coordinator tells all. */
  readonly refuse: { readonly code: ErrorCode; readonly message: string };
  /** From a member: it will not join any more. */
  readonly leave: { readonly rank: number };
  /** From a member: how many newcomers wait? */
  readonly ask: { readonly rank: number };
  /** The answer. */
  readonly waiting: { readonly count: number };
}

/** A message of the rendezvous. */
export type RendezvousMessage = { [K in keyof Bodies]: { readonly kind: K } & Bodies[K] }[keyof Bodies];

/** The words of a refusal are cut, because a coordinator takes 64 KiB from a member. In UTF-16 units. */
const LONGEST_WORDS = 16_000;

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

const isUint32 = isBetween(0, 2 ** 32 - 1);
const areNames = isListOf(isName) as Check<readonly string[]>;
const isRingId: Check<string> = (value): value is string => isText(value) && /^[0-9a-f]{16}$/.test(value);

const FIELDS: { readonly [K in keyof Bodies]: { readonly [name in keyof Bodies[K]]: Check<Bodies[K][name]> } } = {
  join: {
    protocolVersion: isUint32,
    runId: isName,
    worldSize: isUint32,
    rank: isUint32,
    hostId: isName,
    publicKey: isName,
    newcomer: isBoolean,
    admits: isBoolean,
    patienceMs: isUint32,
    agreed: areNames,
  },
  roster: { hostIds: areNames, publicKeys: areNames, members: isListOf(isUint32), generation: isUint32 },
  listening: { rank: isUint32, endpoint: isName },
  start: { ringId: isRingId, endpoints: areNames },
  connected: { rank: isUint32, lanes: isBoolean },
  formed: { lanes: isBoolean },
  refuse: { code: isOneOf(ERROR_CODES), message: isText },
  leave: { rank: isUint32 },
  ask: { rank: isUint32 },
  waiting: { count: isUint32 },
};

/** The coordinator must be able to tell a rank that its version differs, even if the rest of its message is unknown. */
const isOfSomeVersion = isWith({ protocolVersion: isUint32, rank: isUint32 });
const UNREAD = {
  kind: 'join' as const,
  ...{ runId: '', worldSize: 0, hostId: '', publicKey: '', newcomer: false, admits: false, patienceMs: 0, agreed: [] },
};

/**
 * A message as text. ZeroMQ copies text. It releases a buffer, in contrast, on the thread that sent it, once it is
 * delivered or dropped. If that thread has ended by then, it writes to freed memory.
 */
export function encodeRendezvousMessage(message: RendezvousMessage): string {
  return JSON.stringify(withShortWords(message));
}

/**
 * The message that was received as these parts.
 *
 * @throws GradringError `ERR_PROTOCOL` if they are not one message.
 */
export function decodeRendezvousMessage(parts: readonly Uint8Array[]): RendezvousMessage {
  if (parts.length !== 1) throw protocolError(`comes in ${parts.length} parts`);
  const value = attempt(() => JSON.parse(utf8.decode(parts[0])) as unknown); // the words of its error would quote it
  if (!isObject(value)) throw protocolError('holds no valid rendezvous message');
  const { kind } = value;
  if (kind === 'join' && value.protocolVersion !== PROTOCOL_VERSION && isOfSomeVersion(value)) {
    return { ...UNREAD, protocolVersion: value.protocolVersion, rank: value.rank };
  }
  const fields = typeof kind === 'string' && Object.hasOwn(FIELDS, kind) ? FIELDS[kind as keyof Bodies] : undefined;
  if (fields === undefined || !isWith<object>(fields)(value)) {
    throw protocolError('holds no valid rendezvous message');
  }
  // What else it holds could fill the memory.
  const known = Object.fromEntries(Object.keys(fields).map(name => [name, value[name]]));
  return withShortWords({ kind, ...known } as RendezvousMessage);
}

/** The words of a refusal can be shown, and are no longer than is allowed. */
function withShortWords(message: RendezvousMessage): RendezvousMessage {
  if (message.kind !== 'refuse') return message;
  return { ...message, message: printableLines(message.message, LONGEST_WORDS) };
}

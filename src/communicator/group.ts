import { createHash } from 'node:crypto';
import { isLoopback, type PortRange, portRangeOf } from '../environment/network';
import { deserializeError, GradringError, inRun, invalidArgument, readError, serializeError } from '../errors';
import { decodeValues, encodeValue } from '../rank-values';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { hostId, placeForPeers } from '../rendezvous/host-identity';
import { findFreePort, requireFreePort } from '../rendezvous/master-port';
import { listenInRange } from '../rendezvous/port-range';
import { type Check, isAnything, isBetween, isBoolean, isOptional, isText, isWith } from '../shape';
import { aborted } from './abort';

/** Which group a rank is of: ranks with the same colour are together. Null: of none. */
export type Colour = number | string | null;

/** What a communicator has that makes a group of some of its ranks. */
export interface ParentRing {
  readonly rank: number;
  /** How many groups its ranks have formed before. */
  readonly call: number;
  readonly options: ConnectOptions;
  /** Ends with the signal, and the ring with it. */
  allGather(own: Uint8Array): Promise<Uint8Array[]>;
  /** The same, whatever the signal says. */
  agree(own: Uint8Array): Promise<Uint8Array[]>;
  readonly signal: AbortSignal | undefined;
}

/** What each rank says of itself. */
interface Member {
  readonly colour: Colour;
  /** See {@link hostId}. */
  readonly host: string;
}

/** Where the ranks of a group meet, as its lowest rank says, or why they cannot. */
interface Meeting {
  readonly masterAddr?: string | undefined;
  readonly masterPort?: number | undefined;
  readonly fault?: unknown;
}

const isColour: Check<Colour> = (value): value is Colour =>
  value === null || typeof value === 'string' || Number.isSafeInteger(value);
const isMember = isWith<Member>({ colour: isColour, host: isText });
/** An address or the name of a host. It becomes part of a ZeroMQ endpoint, in which other signs have a meaning. */
const isAddress: Check<string> = (value): value is string =>
  typeof value === 'string' && /^[\w.:%[\]-]{1,255}$/.test(value);
const isMeeting = isWith<Meeting>({
  masterAddr: isOptional(isAddress),
  masterPort: isOptional(isBetween(1, 65_535)),
  fault: isAnything,
});

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
export function checkColour(colour: unknown): asserts colour is Colour {
  if (isColour(colour)) return;
  throw invalidArgument('ring.group takes a colour: a whole number, a text, or null for no group.');
}

/**
 * Finds the options with which this rank joins the ring of its group: all ranks of the ring tell their colours, and the
 * lowest rank of each group finds a place where the others reach it. Undefined for a rank without a group.
 *
 * @throws GradringError what the lowest rank of the group has found wrong.
 */
export async function groupOptions(ring: ParentRing, colour: Colour): Promise<ConnectOptions | undefined> {
  const own: Member = { colour, host: hostId() };
  const members = decodeValues(await ring.allGather(encodeValue(own)), isMember);
  const ranks = members.flatMap((member, rank) => (colour !== null && member.colour === colour ? [rank] : []));
  const [lowest] = ranks;
  const isMet = ranks.length > 1;
  const isLowest = ({ colour }: Member, rank: number) => members.findIndex(each => each.colour === colour) === rank;
  const number = members.slice(0, lowest).filter(isLowest).length;
  const meeting: Meeting = lowest === ring.rank && isMet ? await meetingPlace(ring.options, number) : {};
  const meetings = decodeValues(await ring.allGather(encodeValue(meeting)), isMeeting);
  // A rank whose signal has come between two calls does not join, so nobody waits for it.
  const isGone = decodeValues(await ring.agree(encodeValue(ring.signal?.aborted === true)), isBoolean);
  if (lowest === undefined) return undefined;
  const gone = ranks.find(rank => isGone[rank]);
  const { ranksOfRun } = ring.options;
  if (gone === ring.rank) {
    const error = aborted('ring.group was aborted before its group formed.', ring.signal!, { rank: gone });
    throw inRun(error, ranksOfRun);
  }
  if (gone !== undefined) {
    const words = `Rank ${gone} has aborted ring.group before its group formed.`;
    throw inRun(new GradringError('ERR_ABORTED', words, { rank: gone }), ranksOfRun);
  }
  const { masterAddr, masterPort, fault } = meetings[lowest]!;
  const error = readError(fault);
  if (error !== undefined) throw deserializeError(error);
  if (isMet && (masterAddr === undefined || masterPort === undefined)) {
    const words = `Rank ${lowest} did not say where its group meets.`;
    throw inRun(new GradringError('ERR_PROTOCOL', words, { rank: lowest }), ranksOfRun);
  }
  const rank = ranks.indexOf(ring.rank);
  return {
    ...ring.options,
    ...(isMet && { masterAddr: masterAddr!, masterPort: masterPort! }),
    rank,
    worldSize: ranks.length,
    ranksOfRun: ranks.map(each => ranksOfRun?.[each] ?? each),
    // Ranks of another group that come to this one by mistake are refused.
    runId: createHash('sha256').update(`${ring.options.runId} ${ring.call} ${lowest}`).digest('hex').slice(0, 32),
    localRank: ranks.slice(0, rank).filter(each => members[each]!.host === own.host).length,
    // These are of the run's ring.
    timeline: undefined,
    stopAfter: undefined,
    overruled: undefined,
  };
}

/**
 * Never throws: the others of the group must learn what is wrong.
 *
 * @param number That of the group, from 0: groups of one host look for a port at the same time.
 */
async function meetingPlace(options: ConnectOptions, number: number): Promise<Meeting> {
  try {
    const { masterAddr, portRange } = options;
    // A rank that reached a master on loopback reaches others there, too.
    const isNear = isLoopback(masterAddr);
    const told = isNear ? masterAddr : (await placeForPeers(options)).told;
    const host = isNear ? masterAddr : '0.0.0.0'; // where a rendezvous listens
    const range = portRange === undefined ? undefined : portRangeOf(portRange);
    const masterPort = range === undefined ? await findFreePort(host) : await freePort(host, range, number);
    return { masterAddr: told, masterPort };
  } catch (error) {
    return { fault: serializeError(error, 'ERR_ADDRESS_IN_USE') };
  }
}

/**
 * A free port of a range: from its end, because links take its first ports.
 *
 * @throws GradringError `ERR_ADDRESS_IN_USE`
 */
function freePort(host: string, range: PortRange, number: number): Promise<number> {
  const { first, last } = range;
  return listenInRange(range, async tried => {
    const port = last - ((number + tried - first) % (last - first + 1));
    await requireFreePort(host, port, 'portRange');
    return port;
  });
}

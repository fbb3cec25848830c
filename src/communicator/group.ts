import { isLoopback, portRangeOf } from '../environment/network';
import { deserializeError, GradringError, invalidArgument, isSerializedError, serializeError } from '../errors';
import { decodeValues, encodeValue } from '../rank-values';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { hostId, placeForPeers } from '../rendezvous/host-identity';
import { findFreePort, requireFreePort } from '../rendezvous/master-port';
import { type Check, isAnything, isBetween, isOptional, isText, isWith } from '../shape';

/** Which group a rank is of: ranks with the same colour are together. Null: of none. */
export type Colour = number | string | null;

/** What a communicator has that makes a group of some of its ranks. */
export interface ParentRing {
  readonly rank: number;
  readonly options: ConnectOptions;
  allGather(own: Uint8Array): Promise<Uint8Array[]>;
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
const isMeeting = isWith<Meeting>({
  masterAddr: isOptional(isText),
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
  const meeting: Meeting = lowest === ring.rank && isMet ? await meetingPlace(ring.options) : {};
  const meetings = decodeValues(await ring.allGather(encodeValue(meeting)), isMeeting);
  if (lowest === undefined) return undefined;
  const { masterAddr, masterPort, fault } = meetings[lowest]!;
  if (isSerializedError(fault)) throw deserializeError(fault);
  if (isMet && (masterAddr === undefined || masterPort === undefined)) {
    throw new GradringError('ERR_PROTOCOL', `Rank ${lowest} did not say where its group meets.`, { rank: lowest });
  }
  const rank = ranks.indexOf(ring.rank);
  return {
    ...ring.options,
    ...(isMet && { masterAddr: masterAddr!, masterPort: masterPort! }),
    rank,
    worldSize: ranks.length,
    localRank: ranks.slice(0, rank).filter(each => members[each]!.host === own.host).length,
    // These are of the run's ring.
    timeline: undefined,
    stopAfter: undefined,
  };
}

/** Never throws: the others of the group must learn what is wrong. */
async function meetingPlace(options: ConnectOptions): Promise<Meeting> {
  try {
    const { masterAddr, portRange } = options;
    // A rank that reached a master on loopback reaches others there, too.
    const isNear = isLoopback(masterAddr);
    const told = isNear ? masterAddr : (await placeForPeers(options)).told;
    const host = isNear ? masterAddr : '0.0.0.0'; // where a rendezvous listens
    const range = portRange === undefined ? undefined : portRangeOf(portRange);
    const masterPort = range === undefined ? await findFreePort(host) : await freePortIn(host, range);
    return { masterAddr: told, masterPort };
  } catch (error) {
    return { fault: serializeError(error, 'ERR_ADDRESS_IN_USE') };
  }
}

/** @throws GradringError `ERR_ADDRESS_IN_USE` */
async function freePortIn(host: string, { first, last }: { first: number; last: number }): Promise<number> {
  for (let port = last; ; port--) {
    try {
      await requireFreePort(host, port, 'portRange');
      return port;
    } catch (error) {
      if (port === first) throw error;
    }
  }
}

import { GradringError } from '../errors';
import { ifOutOfFiles } from '../open-files';
import type { RingIdentity } from '../wire/frame';

/** One of a rank's two neighbours. In a ring of two they are the same rank, over two links. */
export type Side = 'left' | 'right';

export const SIDES = ['left', 'right'] as const;

export function opposite(side: Side): Side {
  return side === 'left' ? 'right' : 'left';
}

/** This rank's place, and how to name its neighbours in errors. */
export interface RingPlace extends RingIdentity {
  readonly rank: number;
  /** Host and endpoint of each rank, for the words of errors. */
  readonly addresses: readonly string[];
  /** Whether all ranks are on this host. */
  readonly isLocal: boolean;
  /** Whether each neighbour is on this host. */
  readonly isHere: Readonly<Record<Side, boolean>>;
  /** The ranks of the ring, divided into those that are beside each other on one host; in order. */
  readonly hostRuns: readonly HostRun[];
  /** How many ranks there are on this host. */
  readonly ranksHere: number;
  /** Whether there is a core for each of them. */
  readonly hasCore: boolean;
}

/** Ranks on one host that are beside each other in the ring. */
export interface HostRun {
  readonly first: number;
  readonly last: number;
}

/** Divides the ranks, whose hosts these are. (The last rank and rank 0 may be on one host and in two runs.) */
export function hostRunsOf(hosts: readonly unknown[]): HostRun[] {
  const firsts = [...hosts.keys()].filter(rank => rank === 0 || hosts[rank] !== hosts[rank - 1]);
  return firsts.map((first, i) => ({ first, last: (firsts[i + 1] ?? hosts.length) - 1 }));
}

/** Who is beside a rank. */
export function neighbourOf({ worldSize }: RingIdentity, rank: number, side: Side): number {
  return (rank + (side === 'right' ? 1 : worldSize - 1)) % worldSize;
}

/** The error for a neighbour that is not there any more. The words continue "Rank 2 (tcp://…) …". */
export function peerLost(place: RingPlace, side: Side, how: string): GradringError {
  return rankLost(place, neighbourOf(place, place.rank, side), how);
}

/** How a rank was lost that has left in order while another one still needed it. */
export function leftBefore(who: string): string {
  return `has left the ring: its program ended, or closed it, before ${who} was done`;
}

/** {@link peerLost}, for any rank. */
export function rankLost(place: RingPlace, rank: number, how: string): GradringError {
  const address = place.addresses[rank]!;
  return new GradringError('ERR_PEER_LOST', `Rank ${rank} (${address}) ${how}.${ifOutOfFiles(`rank ${place.rank}`)}`, {
    rank,
    address,
  });
}

/**
 * What carries frames from a rank to a neighbour: the socket of their link (a unix socket, or TCP), or a lane beside
 * the link (shared memory, or a TCP connection).
 */
export type Medium = 'unix-socket' | 'tcp' | 'tcp-encrypted' | 'shared-memory' | 'tcp-lane' | 'tcp-lane-encrypted';

import type { RankOutcome } from './rank-process';
import { endedWell } from './supervisor';

/**
 * The state of a rank's process: in the ring (or about to join the first one); waiting to be let in; ended as it
 * should; lost; failed by itself while it waited, as its replacement would; or ended because no rank was left to join.
 */
export type MemberState = 'ring' | 'waiting' | 'finished' | 'lost' | 'unable' | 'unneeded';

/** The states of all ranks of an elastic run. */
export class MemberStates {
  /** Whether a ring has formed since all ranks were started together. */
  hasRing = false;
  private readonly states: MemberState[];

  constructor(count: number) {
    this.states = Array.from({ length: count }, () => 'lost');
  }

  /** The ranks in that state. */
  in(state: MemberState): readonly number[] {
    return this.states.flatMap((each, rank) => (each === state ? [rank] : []));
  }

  /** All ranks are started together. */
  enterAll(): void {
    this.hasRing = false;
    this.states.fill('ring');
  }

  set(rank: number, state: MemberState): void {
    this.states[rank] = state;
  }

  /** Notes that a rank's process has ended. Returns its state before. */
  leave(outcome: RankOutcome): MemberState {
    const { rank, signal } = outcome;
    const before = this.states[rank]!;
    const isUnable = before === 'waiting' && signal === null;
    if (before !== 'unneeded') this.states[rank] = endedWell(outcome) ? 'finished' : isUnable ? 'unable' : 'lost';
    return before;
  }

  /** Notes that these ranks are in the ring, except those whose processes have ended meanwhile. */
  admit(ranks: readonly number[]): void {
    this.hasRing = true;
    for (const rank of ranks) if (this.states[rank] === 'waiting') this.states[rank] = 'ring';
  }
}

/**
 * Of members that are not connected, the one in the middle of those that are beside each other: the neighbours of a
 * member whose host is cut off are not connected either.
 *
 * @param ring All members that come, in their order.
 */
export function middleOf(unconnected: readonly number[], ring: readonly number[]): number {
  const isIn = (place: number) => unconnected.includes(ring.at(place % ring.length)!);
  const first = Math.max(
    0,
    ring.findIndex((_, place) => isIn(place) && !isIn(place + ring.length - 1)),
  );
  let count = 0;
  while (count < ring.length && isIn(first + count)) count++;
  return ring.at((first + (count >> 1)) % ring.length)!;
}

import type { RankOutcome } from './rank-process';

/**
 * Where the process of a rank stands: in the ring (or on its way to the first one); waiting to be let in; ended with
 * exit code 0; lost; failed by itself while it waited, as its successor would; or ended because no rank was left that
 * it could have joined.
 */
export type SeatState = 'ring' | 'waiting' | 'finished' | 'lost' | 'unable' | 'unneeded';

/** The ranks of an elastic run, whose processes come and go. */
export class Seats {
  /** Whether all were in a ring since they were started together. */
  hasRing = false;
  private readonly states: SeatState[];

  constructor(count: number) {
    this.states = Array.from({ length: count }, () => 'lost');
  }

  /** The ranks that stand there. */
  in(state: SeatState): readonly number[] {
    return this.states.flatMap((each, rank) => (each === state ? [rank] : []));
  }

  /** All are started together. */
  takeAll(): void {
    this.hasRing = false;
    this.states.fill('ring');
  }

  set(rank: number, state: SeatState): void {
    this.states[rank] = state;
  }

  /** Notes that a rank's process has ended. Returns where it stood before. */
  leave({ rank, exitCode, signal }: RankOutcome): SeatState {
    const before = this.states[rank]!;
    const isUnable = before === 'waiting' && signal === null;
    if (before !== 'unneeded') this.states[rank] = exitCode === 0 ? 'finished' : isUnable ? 'unable' : 'lost';
    return before;
  }

  /** These are in the ring now, but for those whose processes have ended meanwhile. */
  admit(ranks: readonly number[]): void {
    this.hasRing = true;
    for (const rank of ranks) if (this.states[rank] === 'waiting') this.states[rank] = 'ring';
  }
}

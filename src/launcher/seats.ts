import type { RankOutcome, RankProcess } from './rank-process';

/**
 * Where the process of a rank stands: in the ring (or on its way to the first one); waiting to be let in; ended with
 * exit code 0; lost; failed by itself while it waited, as its successor would; or ended because there was nobody left
 * whom it could have joined.
 */
export type SeatState = 'ring' | 'waiting' | 'finished' | 'lost' | 'unable' | 'unneeded';

/** What is known of a rank. */
interface Seat {
  readonly rank: number;
  state: SeatState;
  /** The one that runs, if any. */
  child: RankProcess | undefined;
  /** How the last one ended. */
  outcome: RankOutcome | undefined;
}

/** The ranks of an elastic run, whose processes come and go. */
export class Seats {
  readonly all: readonly Seat[];
  /** Whether all were in a ring since they were started together. */
  hasRing = false;

  constructor(count: number) {
    this.all = Array.from({ length: count }, (_, rank) => ({
      rank,
      state: 'lost',
      child: undefined,
      outcome: undefined,
    }));
  }

  get running(): RankProcess[] {
    return this.all.flatMap(({ child }) => child ?? []);
  }

  /** How each rank's last process ended; of a rank that was lost while all others ended well, that. */
  get outcomes(): RankOutcome[] {
    return this.all.flatMap(({ outcome }) => outcome ?? []);
  }

  in(state: SeatState): readonly Seat[] {
    return this.all.filter(seat => seat.state === state);
  }

  take(rank: number, child: RankProcess, role: 'member' | 'newcomer'): void {
    if (role === 'member') this.hasRing = false;
    Object.assign(this.all[rank]!, { child, state: role === 'member' ? 'ring' : 'waiting' });
  }

  /** The system could not start its process. */
  vacate(rank: number): void {
    Object.assign(this.all[rank]!, { child: undefined, state: 'lost' });
  }

  /** Notes that a rank's process has ended. Returns where it stood before. */
  leave(outcome: RankOutcome): SeatState {
    const seat = this.all[outcome.rank]!;
    const { state } = seat;
    seat.child = undefined;
    seat.outcome = outcome;
    if (state !== 'unneeded') seat.state = stateAfter(state, outcome);
    return state;
  }

  /** These are in the ring now. */
  admit(ranks: readonly number[]): void {
    this.hasRing = true;
    for (const rank of ranks) if (this.all[rank]!.child !== undefined) this.all[rank]!.state = 'ring';
  }

  /** Ends those who wait. */
  dismissNewcomers(): void {
    for (const seat of this.in('waiting')) {
      seat.state = 'unneeded';
      seat.child?.kill();
    }
  }

  /** Kills that rank, or all. */
  kill(rank?: number): void {
    for (const seat of this.all) if (rank === undefined || seat.rank === rank) seat.child?.kill();
  }
}

function stateAfter(before: SeatState, { exitCode, signal }: RankOutcome): SeatState {
  if (exitCode === 0) return 'finished';
  return before === 'waiting' && signal === null ? 'unable' : 'lost';
}

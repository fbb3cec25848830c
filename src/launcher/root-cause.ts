import type { RankError } from '../environment/launcher-pipe';
import type { RankOutcome } from './rank-process';
import type { RunEnd } from './supervisor';

/** Why a run failed. */
export interface RootCause {
  /** The rank that made the run fail; if that is not known, the first that failed. */
  readonly outcome: RankOutcome;
  /** The error of the first rank that failed, if it has told it. */
  readonly error: RankError | undefined;
  /** Whether this rank still ran when the first one failed because of it. */
  readonly stillRan: boolean;
  /** The rank that the error names, if this launcher has not started it. */
  readonly elsewhere: number | undefined;
}

/** Which rank made a run fail. The first that fails is often a victim, and its error names another one. */
export function rootCauseOf(failure: RankOutcome, { outcomes, reports, ended, members }: RunEnd): RootCause {
  const error = reports.get(failure.rank)?.error;
  const named = error === undefined || tellsADifference(error) ? undefined : error.rank;
  const rank = named === undefined ? failure.rank : (members?.[named] ?? named);
  const outcome = outcomes.find(each => each.rank === rank);
  // A rank that was stopped and goes on misses the others, in turn.
  const missed = outcome && reports.get(outcome.rank)?.error?.rank;
  const endedLater = ended.has(rank) || (missed !== undefined && missed !== named);
  return {
    outcome: outcome ?? failure,
    error,
    stillRan: outcome !== undefined && outcome !== failure && endedLater,
    elsewhere: outcome === undefined ? rank : undefined,
  };
}

/** Whether an error only tells that ranks differ, and not which of them is wrong. */
export function tellsADifference({ code, rank }: RankError): boolean {
  return (
    ['ERR_MODEL_MISMATCH', 'ERR_REPLICAS_DIVERGED'].includes(code) ||
    (code === 'ERR_COLLECTIVE_MISMATCH' && rank === undefined)
  );
}

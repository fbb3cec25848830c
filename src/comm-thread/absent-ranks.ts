import type { RankState } from '../transport/control/roll-call';
import type { Transport } from '../transport/transport';
import { describeCall } from '../wire/describe-call';
import { Operation } from '../wire/frame';

/** The most ranks that are named one by one. */
const NAMED = 8;

/** A rank that others wait for. */
export interface AbsentRank {
  readonly rank: number;
  /** What it is doing instead. Undefined if it does not answer. */
  readonly state: RankState | undefined;
}

/** The ranks that have not called that collective yet, or do not answer. */
export function findAbsent(
  { rank: own, worldSize }: Pick<Transport, 'rank' | 'worldSize'>,
  sequence: number,
  answers: ReadonlyMap<number, RankState>,
): AbsentRank[] {
  return Array.from({ length: worldSize }, (_, rank) => ({ rank, state: answers.get(rank) })).filter(
    ({ rank, state }) => rank !== own && !hasCalled(state, sequence),
  );
}

/** Whether a rank has called that collective, as it says. */
export function hasCalled(state: RankState | undefined, sequence: number): boolean {
  return state !== undefined && state.sequence >= sequence && !hasCalledNone(state);
}

/** Whether a rank has done that collective, as it says. */
export function hasDone(state: RankState | undefined, sequence: number): boolean {
  return hasCalled(state, sequence) && (state!.sequence > sequence || !state!.isCalling);
}

/** Words: `rank 2 has not called it; its last call, barrier() (collective 16), ended 41 s ago`. */
function describeAbsent({ rank, state }: AbsentRank): string {
  if (state === undefined) return `rank ${rank} does not answer (its process is stopped, or its network is cut)`;
  const since = `${Math.round(state.sinceMs / 1000)} s`;
  if (hasCalledNone(state)) return `rank ${rank} has not called it, or anything else since it joined ${since} ago`;
  const last = describeNumbered(state);
  return state.isCalling
    ? `rank ${rank} has not called it; it has been in ${last} for ${since}`
    : `rank ${rank} has not called it; its last call, ${last}, ended ${since} ago`;
}

/** A collective in words, with its number and step. */
export function describeNumbered({ call, sequence, step }: Pick<RankState, 'call' | 'sequence' | 'step'>): string {
  return `${describeCall(call)} (collective ${sequence}${step === undefined ? '' : `, step ${step}`})`;
}

/** Why a collective waits: what each absent rank does. Names only the first of many ranks. */
export function describeAll(absent: readonly AbsentRank[]): string {
  if (absent.length === 0) return 'all ranks have called it: the network is slow, or loses data';
  const more = absent.length - NAMED;
  return [
    ...absent.slice(0, NAMED).map(describeAbsent),
    ...(more > 0 ? [`${more} more ranks have not called it, or do not answer`] : []),
  ].join('; ');
}

function hasCalledNone({ call }: RankState): boolean {
  return call.operation === Operation.None;
}

import { listed } from '../counted';
import { STOPPED_EXIT_CODE } from '../environment/stop';
import type { LastWords } from './error-output';
import type { RankOutcome } from './rank-process';
import type { RankReport } from './rank-report';
import { type RootCause, tellsADifference } from './root-cause';
import type { ForwardedSignal } from './signals';
import type { RunEnd } from './supervisor';

/** How the ranks ended, and what they told. */
type Told = Pick<RunEnd, 'outcomes' | 'reports'>;

/** The line that says why a run failed: which rank was the cause, and how the others ended. */
export function describeFailure(failure: RankOutcome, cause: RootCause, end: Told): string {
  const { outcomes, reports } = end;
  const { rank, pid, host, signal, exitCode } = cause.outcome;
  const others = outcomes.filter(outcome => outcome !== cause.outcome).map(describeOutcome);
  const then = cause.stillRan ? ` It then ended with ${signal ?? `exit code ${exitCode}`}.` : '';
  const othersEnd = others.length === 0 ? '' : ` The other ranks: ${others.join(', ')}.`;
  const place = host === undefined ? '' : `on ${host}, `;
  return `gradring: rank ${rank} (${place}pid ${pid}) ${howItFailed(failure, cause, reports)}.${then}${othersEnd}`;
}

/** The words follow the name of the rank. */
function howItFailed(
  failure: RankOutcome,
  { outcome, error, stillRan, elsewhere }: RootCause,
  reports: ReadonlyMap<number, RankReport>,
): string {
  const { exitCode, signal, connectionLost } = outcome;
  const after = (time: RankOutcome): string => `after ${(time.afterMs / 1000).toFixed(1)} s`;
  if (stillRan) {
    const fault = { ERR_PEER_LOST: 'did not answer', ERR_TIMEOUT: 'was late' }[error!.code as string];
    return `${fault ?? 'is named by the error'}, though its process still existed when rank ${failure.rank} failed ${after(failure)}; root cause`;
  }
  if (connectionLost) return `was lost with the connection to its host ${after(outcome)}; root cause`;
  if (signal !== null) return `was killed by ${signal} ${after(outcome)}; root cause`;
  if (exitCode === 0) return `exited with code 0 ${after(outcome)}${whatItLeft(outcome, reports)}; root cause`;
  const failed = `failed with exit code ${exitCode} ${after(outcome)}`;
  if (elsewhere !== undefined)
    return `${failed}; its error names rank ${elsewhere}, which another launcher has started`;
  return error !== undefined && tellsADifference(error) ? `was the first that ${failed}` : `${failed}; root cause`;
}

/** What a rank that succeeded did too early. */
function whatItLeft({ rank }: RankOutcome, reports: ReadonlyMap<number, RankReport>): string {
  const waiting = [...reports].filter(([, { isWaiting }]) => isWaiting).map(([each]) => each).sort((a, b) => a - b); // prettier-ignore
  if (waiting.length === 0) return ', before the others were done';
  const wait = `${listed('rank', waiting)} ${waiting.length === 1 ? 'waits' : 'wait'} for it`;
  if (reports.get(rank)?.connects) return `, but ${wait} in connect()`;
  return ` without a call of connect(), but ${wait} there`;
}

/** The lines that say what a rank that failed by itself wrote last; none if it wrote nothing. */
export function describeLastWords(rank: number, { isError, lines }: LastWords): string[] {
  if (lines.length === 0) return [];
  const what = isError ? `the error of rank ${rank}` : `the last error output of rank ${rank}`;
  return [`gradring: ${what}:`, ...lines.map(line => `    ${line}`)];
}

/** The line that says how a run ended after a signal. */
export function describeInterruption(signal: ForwardedSignal, outcomes: readonly RankOutcome[]): string {
  return `gradring: ${signal} was passed on to the ranks, which ended: ${outcomes.map(describeOutcome).join(', ')}.`;
}

/** The line that says that all ranks have saved and ended as they were told. */
export function describeStop(): string {
  return `gradring: the ranks were told to stop. They have saved, and ended with exit code ${STOPPED_EXIT_CODE}: the same command goes on from there.`;
}

/**
 * A warning for ranks that ended well, but had no part in a ring.
 *
 * @param worldSize How many ranks were started, by all launchers.
 */
export function describeUnconnected({ outcomes, reports }: Told, worldSize: number): string[] {
  const done = outcomes.filter(({ exitCode }) => exitCode === 0).map(({ rank }) => rank);
  const without = done.filter(rank => !reports.get(rank)?.connects);
  const isRing = [...reports.values()].some(({ rings }) => rings > 0);
  if (worldSize === 1 || without.length === 0 || (without.length < outcomes.length && !isRing)) return [];
  const all = outcomes.length === worldSize ? 'no rank has' : 'no rank of this host has';
  const some = `${listed('rank', without)} ${without.length === 1 ? 'has' : 'have'} not`;
  const which = without.length === outcomes.length ? all : some;
  return [
    `gradring: ${which} called connect(): without it each process works alone. A script that trains one model on all ranks calls connect() of gradring, and wraps its optimizer with ring.wrap.`,
  ];
}

function describeOutcome({ rank, exitCode, signal, connectionLost }: RankOutcome): string {
  return `rank ${rank} ${connectionLost ? 'lost' : (signal ?? `exit ${exitCode}`)}`;
}

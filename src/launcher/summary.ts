import type { LastWords } from './error-output';
import type { RankOutcome } from './rank-process';
import type { ForwardedSignal } from './signals';

/** The lines that say why a run failed: which rank was first, its error, and how the others ended. */
export function describeFailure(
  rootCause: RankOutcome,
  outcomes: readonly RankOutcome[],
  lastWords: LastWords,
): string[] {
  const { rank, pid, exitCode, signal, afterMs, host, connectionLost } = rootCause;
  const end = connectionLost
    ? 'was lost with the connection to its host'
    : signal === null
      ? `failed with exit code ${exitCode}`
      : `was killed by ${signal}`;
  const others = outcomes.filter(outcome => outcome !== rootCause).map(describeOutcome);
  const othersEnd = others.length === 0 ? '' : ` The other ranks were ended: ${others.join(', ')}.`;
  const summary = `gradring: rank ${rank} (${host === undefined ? '' : `on ${host}, `}pid ${pid}) ${end} after ${(afterMs / 1000).toFixed(1)} s; root cause.${othersEnd}`;
  return signal !== null ? [summary] : [summary, ...describeLastWords(rank, lastWords)];
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

function describeOutcome({ rank, exitCode, signal, connectionLost }: RankOutcome): string {
  return `rank ${rank} ${connectionLost ? 'lost' : (signal ?? `exit ${exitCode}`)}`;
}

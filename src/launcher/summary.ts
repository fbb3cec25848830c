import type { RankOutcome } from './rank-process';
import type { ForwardedSignal } from './signals';

/** The lines that tell why a run failed: who was first, what its last words were, how the others ended. */
export function describeFailure(
  rootCause: RankOutcome,
  outcomes: readonly RankOutcome[],
  lastWords: readonly string[],
): string[] {
  const { rank, pid, exitCode, signal, afterMs } = rootCause;
  const end = signal === null ? `failed with exit code ${exitCode}` : `was killed by ${signal}`;
  const others = outcomes.filter(outcome => outcome !== rootCause).map(describeOutcome);
  const othersEnd = others.length === 0 ? '' : ` The other ranks were ended: ${others.join(', ')}.`;
  const summary = `gradring: rank ${rank} (pid ${pid}) ${end} after ${(afterMs / 1000).toFixed(1)} s; root cause.${othersEnd}`;
  if (signal !== null || lastWords.length === 0) return [summary];
  return [summary, `gradring: the last error output of rank ${rank}:`, ...lastWords.map(line => `    ${line}`)];
}

/** The line that tells how a run ended upon a signal. */
export function describeInterruption(signal: ForwardedSignal, outcomes: readonly RankOutcome[]): string {
  return `gradring: ${signal} was passed on to the ranks, which ended: ${outcomes.map(describeOutcome).join(', ')}.`;
}

function describeOutcome({ rank, exitCode, signal }: RankOutcome): string {
  return `rank ${rank} ${signal ?? `exit ${exitCode}`}`;
}

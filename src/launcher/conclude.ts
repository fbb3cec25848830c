import { STOPPED_EXIT_CODE } from '../environment/stop';
import type { RankOutputs } from './rank-outputs';
import type { RankOutcome } from './rank-process';
import { type ForwardedSignal, signalExitCode } from './signals';
import { rootCauseOf } from './root-cause';
import { describeFailure, describeInterruption, describeLastWords, describeStop, describeUnconnected } from './summary';
import { endedWell, type RunEnd } from './supervisor';

/** How a launch ended. */
export interface LaunchResult {
  /**
   * The exit code for the launcher's process. 0: all ranks did their work and exited with 0; in an elastic run, those
   * that were left. After a failure it is that of {@link rootCause}; if that rank exited with 0 or was ended by the
   * launcher, that of the first rank that failed, or else 1. After a signal it is 128 + its number, which is also what
   * a rank counts that died of one, as in a shell. 75: the ranks were told to stop, and have saved.
   */
  readonly exitCode: number;
  /**
   * The rank that made the run fail: the one that the error of the first rank that failed names, or this first rank
   * itself. It may have exited with 0, before the others were done.
   */
  readonly rootCause?: RankOutcome;
  /** The signal that this process received and passed on, if it came before any rank failed. */
  readonly interruptedBy?: ForwardedSignal;
  /** All ranks of this launcher, in their order. In an elastic run, the last process of each. */
  readonly ranks: readonly RankOutcome[];
}

/** Says how the run ended, and sums it up. */
export async function conclude(end: RunEnd, outputs: RankOutputs, worldSize: number): Promise<LaunchResult> {
  const { failure, interruptedBy, outcomes: ranks } = end;
  if (failure !== undefined) {
    const cause = rootCauseOf(failure, end);
    const { outcome: rootCause, stillRan } = cause;
    // If the cause has no error itself, the error of the first that failed tells about it.
    const speaker = stillRan || rootCause.exitCode === 0 ? failure : rootCause;
    const hasError = speaker.signal === null && speaker.exitCode !== 0;
    const words = hasError ? describeLastWords(speaker.rank, outputs.lastWords(speaker.rank)) : [];
    await outputs.say([describeFailure(failure, cause, end), ...words]);
    return { exitCode: (stillRan ? 0 : codeOf(rootCause)) || codeOf(failure) || 1, rootCause, ranks };
  }
  // In an elastic run some may have been lost before. A rank that was killed after the grace time may not have saved.
  const wasKilled = (outcome: RankOutcome) =>
    interruptedBy !== undefined && end.ended.has(outcome.rank) && !end.reports.get(outcome.rank)?.isWaiting;
  if (ranks.some(({ hasSaved }) => hasSaved) && ranks.every(each => endedWell(each) || !wasKilled(each))) {
    const signal = interruptedBy !== undefined && { interruptedBy };
    await outputs.say([describeStop()]);
    return { exitCode: STOPPED_EXIT_CODE, ...signal, ranks };
  }
  if (interruptedBy !== undefined) {
    await outputs.say([describeInterruption(interruptedBy, ranks)]);
    const allSucceeded = ranks.every(outcome => outcome.exitCode === 0);
    return { exitCode: allSucceeded ? 0 : signalExitCode(interruptedBy), interruptedBy, ranks };
  }
  await outputs.say(describeUnconnected(end, worldSize));
  return { exitCode: 0, ranks };
}

/** As a shell shows it. */
function codeOf({ exitCode, signal }: RankOutcome): number {
  return exitCode ?? signalExitCode(signal!);
}

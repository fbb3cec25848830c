import type { RankOutputs } from './rank-outputs';
import type { RankOutcome } from './rank-process';
import { type ForwardedSignal, signalExitCode } from './signals';
import { describeFailure, describeInterruption } from './summary';
import type { RunEnd } from './supervisor';

/** How a launch ended. */
export interface LaunchResult {
  /**
   * The exit code for the launcher's process: 0 if all ranks exited with 0; otherwise the exit code of the first rank
   * that failed; otherwise, after a signal, 128 + its number. As in a shell, a rank that died of a signal counts as 128
   * + its number. For an elastic run: 0 if the ranks that were left reached their end.
   */
  readonly exitCode: number;
  /** The first rank that failed by itself; in an elastic run, the first of the losses that ended the run. */
  readonly rootCause?: RankOutcome;
  /** The signal that this process received and passed on, if it came before any rank failed. */
  readonly interruptedBy?: ForwardedSignal;
  /** All ranks of this host, in their order. In an elastic run, the last process of each. */
  readonly ranks: readonly RankOutcome[];
}

/** Says how the run ended, and sums it up. */
export async function conclude(
  { rootCause, interruptedBy, outcomes: ranks }: RunEnd,
  outputs: RankOutputs,
): Promise<LaunchResult> {
  if (rootCause !== undefined) {
    await outputs.say(describeFailure(rootCause, ranks, outputs.lastWords(rootCause.rank)));
    return { exitCode: rootCause.exitCode ?? signalExitCode(rootCause.signal!), rootCause, ranks };
  }
  if (interruptedBy !== undefined) {
    await outputs.say([describeInterruption(interruptedBy, ranks)]);
    const allSucceeded = ranks.every(outcome => outcome.exitCode === 0);
    return { exitCode: allSucceeded ? 0 : signalExitCode(interruptedBy), interruptedBy, ranks };
  }
  return { exitCode: 0, ranks };
}

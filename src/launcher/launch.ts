import { rmSync } from 'node:fs';
import { makeSocketFolder } from '../rendezvous/socket-folder';
import { planLaunch, type LaunchOptions, type LaunchPlan } from './launch-options';
import { findFreePort, requireFreePort } from './master-port';
import { RankOutputs } from './rank-outputs';
import { RankProcess, type RankOutcome } from './rank-process';
import { type Meeting, rankCommand } from './rank-command';
import { chooseRunId } from './rank-variables';
import { chooseRunToken, tokenFileWarning } from './run-token';
import { signalExitCode, type ForwardedSignal } from './signals';
import { describeFailure, describeInterruption } from './summary';
import { endTogether, type RunEnd, Supervisor } from './supervisor';

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

/** Why a launch ended, if it failed. */
export interface LaunchEnd {
  readonly rootCause: RankOutcome | undefined;
  readonly interruptedBy: ForwardedSignal | undefined;
}

/**
 * Starts ranks, as `gradring run` does. Passes on their output line by line, and resolves when all of them have ended.
 *
 * The ranks end together: when one fails, the others are ended too, unless the run is elastic. SIGINT, SIGTERM and
 * SIGHUP to this process are passed on, and no rank outlives this process. A rank that exits with 0 before the others
 * is not a failure. stderr says why a run failed.
 *
 * ```ts
 * const { exitCode, rootCause } = await launch({ ranks: 2, script: 'train.js', args: ['--epochs', '3'] });
 * console.log(exitCode, rootCause); // 0 undefined
 * ```
 *
 * @throws GradringError before any rank runs: `ERR_INVALID_ARGUMENT`, `ERR_INVALID_ENVIRONMENT` (the run token),
 *   `ERR_SCRIPT_NOT_FOUND`; `ERR_ADDRESS_IN_USE` if the given master port of this host is in use; `ERR_RANK_FAILED` if
 *   the system cannot start the ranks.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  return launchPlan(planLaunch(options));
}

/** {@link launch} with options that are already checked. */
export async function launchPlan(plan: LaunchPlan): Promise<LaunchResult> {
  const runToken = chooseRunToken(plan, { ...process.env, ...plan.env });
  const masterPort = await choosePort(plan);
  const outputs = new RankOutputs(plan);
  const runId = chooseRunId(plan, masterPort, { ...process.env, ...plan.env });
  const socketFolder = trySocketFolder();
  const meeting = { masterPort, runToken, runId, socketFolder };
  const warning = plan.tokenFile && tokenFileWarning(plan.tokenFile);
  try {
    if (warning) await outputs.say([`gradring: ${warning}`]);
    return await conclude(await runRanks(plan, meeting, outputs), outputs);
  } finally {
    if (socketFolder !== undefined) rmSync(socketFolder, { recursive: true, force: true });
    await outputs.close();
  }
}

/** Undefined if no folder can be made. Ranks that need one report why. */
function trySocketFolder(): string | undefined {
  try {
    return makeSocketFolder();
  } catch {
    return undefined;
  }
}

async function choosePort({ masterAddr, masterPort, nodeRank, words }: LaunchPlan): Promise<number> {
  const option = words.nameOf('masterPort');
  if (masterPort === undefined) return findFreePort(masterAddr, option);
  if (nodeRank === 0) await requireFreePort(masterAddr, masterPort, option);
  return masterPort;
}

async function runRanks(plan: LaunchPlan, meeting: Meeting, outputs: RankOutputs): Promise<RunEnd> {
  const supervisor = new Supervisor(plan.ranks, plan.graceMs, {
    start: (localRank, variables) => new RankProcess(rankCommand(plan, meeting, outputs, localRank, variables)),
    outputs,
  });
  if (plan.elastic === undefined) return supervisor.run(endTogether(plan.failureGraceMs));
  const { ElasticRun } = await import('./elastic-run'); // ZeroMQ is needed only here
  return ElasticRun.run(supervisor, plan, plan.elastic, meeting, outputs);
}

async function conclude(
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

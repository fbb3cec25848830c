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
import { StaticRun } from './static-run';
import { describeFailure, describeInterruption } from './summary';
import { type RunEnd, Supervisor } from './supervisor';

/** How a launch ended. */
export interface LaunchResult {
  /**
   * What the launcher's process should exit with: 0 if all ranks did; else that of the first rank that failed; else,
   * upon a signal, 128 + its number. As in a shell, a rank that died of a signal counts as 128 + its number. Of an
   * elastic run 0 if those that were left came to their end.
   */
  readonly exitCode: number;
  /** The first rank that failed, if one did so of itself; in an elastic run, the first of those whose loss ended it. */
  readonly rootCause?: RankOutcome;
  /** The signal to this process that was passed on, if one came before any rank failed. */
  readonly interruptedBy?: ForwardedSignal;
  /** All ranks of this host, in their order. In an elastic run, of each the last process. */
  readonly ranks: readonly RankOutcome[];
}

/**
 * Starts the ranks, passes on their output line by line, and resolves when all of them have ended. The ranks end
 * together: when one fails, the others are ended too, unless the run is elastic; SIGINT, SIGTERM and SIGHUP to this
 * process are passed on, and no rank outlives this process. A rank that exits with 0 ahead of the others is no failure.
 * Why a run failed is said on stderr. See {@link LaunchOptions} for the times and {@link LaunchResult} for the outcome.
 *
 * @throws GradringError before any rank runs: `ERR_INVALID_ARGUMENT`, `ERR_INVALID_ENVIRONMENT` (the run token),
 *   `ERR_SCRIPT_NOT_FOUND`; `ERR_ADDRESS_IN_USE` if the master port named for this host is taken; `ERR_RANK_FAILED` if
 *   the system cannot start the ranks.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  return launchPlan(planLaunch(options));
}

/** {@link launch}, of options that are already checked. */
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

/** Undefined if none can be made: ranks that need one say why. */
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
  if (plan.elastic === undefined) return supervisor.run(new StaticRun(supervisor, plan.failureGraceMs));
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

import { planLaunch, type LaunchOptions, type LaunchPlan } from './launch-options';
import { findFreePort, requireFreePort } from './master-port';
import { RankOutputs } from './rank-outputs';
import { RankProcess, type RankOutcome } from './rank-process';
import { allocatorVariables } from './allocator-variables';
import { chooseRunId, globalRank, rankVariables } from './rank-variables';
import { chooseRunToken } from './run-token';
import { FORWARDED_SIGNALS, signalExitCode, type ForwardedSignal } from './signals';
import { describeFailure, describeInterruption } from './summary';
import { Supervisor } from './supervisor';

/** How a launch ended. */
export interface LaunchResult {
  /**
   * What the launcher's process should exit with: 0 if all ranks did; else that of the first rank that failed; else,
   * upon a signal, 128 + its number. As in a shell, a rank that died of a signal counts as 128 + its number.
   */
  readonly exitCode: number;
  /** The first rank that failed, if one did so of itself. */
  readonly rootCause?: RankOutcome;
  /** The signal to this process that was passed on, if one came before any rank failed. */
  readonly interruptedBy?: ForwardedSignal;
  /** All ranks of this host, in their order. */
  readonly ranks: readonly RankOutcome[];
}

/** What the ranks must know to meet, beside the plan. */
interface Meeting {
  readonly masterPort: number;
  readonly runToken: string | undefined;
}

/**
 * Starts the ranks, passes on their output line by line, and resolves when all of them have ended. The ranks end
 * together: when one fails, the others are ended too; SIGINT, SIGTERM and SIGHUP to this process are passed on, and no
 * rank outlives this process. A rank that exits with 0 ahead of the others is no failure. Why a run failed is said on
 * stderr. See {@link LaunchOptions} for the times and {@link LaunchResult} for the outcome.
 *
 * @throws GradringError before any rank runs: `ERR_INVALID_ARGUMENT`, `ERR_INVALID_ENVIRONMENT` (the run token), `ERR_SCRIPT_NOT_FOUND`; `ERR_ADDRESS_IN_USE` if the
 *   master port named for this host is taken; `ERR_RANK_FAILED` if the system cannot start the ranks.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  const plan = planLaunch(options);
  const runToken = chooseRunToken(plan, { ...process.env, ...plan.env });
  const masterPort = await choosePort(plan);
  const outputs = new RankOutputs(plan, options.stdout ?? process.stdout, options.stderr ?? process.stderr);
  try {
    return await runRanks(plan, { masterPort, runToken }, outputs);
  } finally {
    await outputs.close();
  }
}

async function choosePort({ masterAddr, masterPort, nodeRank }: LaunchPlan): Promise<number> {
  if (masterPort === undefined) return findFreePort(masterAddr);
  if (nodeRank === 0) await requireFreePort(masterAddr, masterPort);
  return masterPort;
}

async function runRanks(plan: LaunchPlan, meeting: Meeting, outputs: RankOutputs): Promise<LaunchResult> {
  const ranks: RankProcess[] = [];
  const supervisor = new Supervisor(ranks, plan);
  const handlers = FORWARDED_SIGNALS.map(signal => [signal, () => supervisor.receive(signal)] as const);
  for (const [signal, handler] of handlers) process.on(signal, handler);
  let relays: Promise<void>[];
  let outcomes: RankOutcome[];
  try {
    await startRanks(plan, meeting, outputs, ranks);
    relays = ranks.map(rank => outputs.relay(rank));
    outcomes = await supervisor.untilAllEnded();
  } finally {
    // Without ranks a signal means this process again, even if the last output is not yet taken.
    for (const [signal, handler] of handlers) process.off(signal, handler);
  }
  await Promise.all(relays);
  return conclude(supervisor, outcomes, outputs);
}

/** Starts all ranks, or none: if one cannot be started, those that were are killed. Fills `ranks` as it goes. */
async function startRanks(
  plan: LaunchPlan,
  { masterPort, runToken }: Meeting,
  outputs: RankOutputs,
  ranks: RankProcess[],
): Promise<void> {
  const inherited = { ...process.env, ...plan.env };
  const runId = chooseRunId(plan, masterPort, inherited);
  try {
    for (let localRank = 0; localRank < plan.ranks; localRank += 1) {
      const env = {
        ...inherited,
        ...allocatorVariables(inherited),
        ...outputs.colors,
        ...(runToken !== undefined && { GRADRING_RUN_TOKEN: runToken }),
        ...rankVariables(plan, localRank, masterPort, runId),
      };
      ranks.push(new RankProcess({ ...plan, rank: globalRank(plan, localRank), env }));
    }
    await Promise.all(ranks.map(rank => rank.started));
  } catch (error) {
    for (const rank of ranks) rank.kill();
    await Promise.allSettled(ranks.map(rank => rank.started.then(() => rank.ended)));
    throw error;
  }
}

async function conclude(
  { rootCause, interruptedBy }: Supervisor,
  ranks: readonly RankOutcome[],
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

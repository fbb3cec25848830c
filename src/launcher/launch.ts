import { createHash, randomBytes } from 'node:crypto';
import { isLoopback, requireLoopback } from '../environment/network';
import { unknownVariableWarning } from '../environment/variables';
import { requireNode } from '../node-version';
import { conclude, type LaunchResult } from './conclude';
import { crowdWarning } from './host-resources';
import { type LaunchOptions, type LaunchPlan, planLaunch, portWords } from './launch-options';
import { LocalRanks } from './local-ranks';
import { findFreePort, requireFreePort } from '../rendezvous/master-port';
import { RankOutputs } from './rank-outputs';
import type { Meeting, RankStarter, ReadyStarter } from './rank-starter';
import { chooseRunToken, tokenFileWarning } from './run-token';
import { endTogether, type RunEnd, Supervisor } from './supervisor';

/**
 * Starts ranks, as `gradring run` does. Passes on their output line by line, and resolves when all of them have ended.
 *
 * The ranks end together: when one fails, the others are ended too, unless the run is elastic. SIGINT, SIGTERM and
 * SIGHUP to this process are passed on, and no rank outlives this process. A rank that exits with 0 before the others
 * is not a failure, unless they wait for it in `connect`. stderr says why a run failed.
 *
 * ```ts
 * const { exitCode, rootCause } = await launch({ ranks: 2, script: 'train.js', args: ['--epochs', '3'] });
 * console.log(exitCode, rootCause); // 0 undefined
 * ```
 *
 * @throws GradringError before any rank runs: `ERR_INVALID_ARGUMENT`, `ERR_INVALID_ENVIRONMENT` (the run token),
 *   `ERR_SCRIPT_NOT_FOUND`; `ERR_ADDRESS_IN_USE` if the given master port of this host is in use; `ERR_LOOPBACK_DOWN`;
 *   `ERR_RANK_FAILED` if the system cannot start the ranks; `ERR_BUNDLED`.
 */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  requireNode();
  return launchPlan(planLaunch(options));
}

/** {@link launch} with options that are already checked. */
export async function launchPlan(plan: LaunchPlan): Promise<LaunchResult> {
  const env = { ...process.env, ...plan.env };
  const runToken = chooseRunToken(plan, env);
  const outputs = new RankOutputs(plan);
  const warn = async (...warnings: readonly (string | undefined)[]): Promise<void> => {
    for (const warning of warnings) if (warning !== undefined) await outputs.say([`gradring: ${warning}`]);
  };
  let starter: RankStarter | undefined;
  try {
    await warn(
      plan.nodeRank === 0 ? unknownVariableWarning(env) : undefined,
      plan.tokenFile === undefined ? undefined : tokenFileWarning(plan.tokenFile),
    );
    const place = await (plan.remote === undefined ? prepareHere(plan) : prepareHosts(plan, outputs));
    starter = place.starter;
    await warn(...place.warnings);
    const { masterAddr, masterPort } = place;
    const meeting = { masterAddr, masterPort, runId: chooseRunId(plan, place, env), runToken };
    return await conclude(await runRanks(plan, starter, meeting, outputs), outputs, plan.worldSize);
  } finally {
    try {
      await starter?.close();
    } finally {
      await outputs.close();
    }
  }
}

async function prepareHere(plan: LaunchPlan): Promise<ReadyStarter> {
  const masterPort = await choosePort(plan);
  const { masterAddr, ranks } = plan;
  return { starter: new LocalRanks(plan), masterAddr, masterPort, warnings: [crowdWarning(ranks)] };
}

async function prepareHosts(plan: LaunchPlan, outputs: RankOutputs): Promise<ReadyStarter> {
  const { connectHosts } = await import('./hosts/connect-hosts');
  return connectHosts(plan, line => outputs.say([line]));
}

async function choosePort(plan: LaunchPlan): Promise<number> {
  const { masterAddr, masterPort, nodeRank, worldSize, elastic, words } = plan;
  if (isLoopback(masterAddr) && (worldSize > 1 || elastic !== undefined)) requireLoopback();
  if (masterPort === undefined) return findFreePort(masterAddr, portWords(words, 'this host'));
  if (nodeRank === 0) await requireFreePort(masterAddr, masterPort, words.nameOf('masterPort'));
  return masterPort;
}

/**
 * The id that distinguishes this run from others: `GRADRING_RUN_ID` if it is given, else 32 random hex digits.
 * Launchers on several nodes cannot agree on random ones, so they use a hash of the master's address and port. It is no
 * secret.
 */
function chooseRunId(plan: LaunchPlan, { masterAddr, masterPort }: ReadyStarter, env: NodeJS.ProcessEnv): string {
  if (env['GRADRING_RUN_ID']) return env['GRADRING_RUN_ID'];
  if (plan.task?.runId) return plan.task.runId;
  if (plan.nodes === 1) return randomBytes(16).toString('hex');
  return createHash('sha256').update(`${masterAddr}:${masterPort}`).digest('hex').slice(0, 32);
}

async function runRanks(
  plan: LaunchPlan,
  starter: RankStarter,
  meeting: Meeting,
  outputs: RankOutputs,
): Promise<RunEnd> {
  const supervisor = new Supervisor(plan.ranks, plan.graceMs, {
    start: (rank, variables) => starter.start(rank, { ...meeting, variables: { ...outputs.variables, ...variables } }),
    outputs,
  });
  if (plan.elastic === undefined) return supervisor.run(endTogether(plan.failureGraceMs));
  const { ElasticRun } = await import('./elastic-run'); // ZeroMQ is needed only here
  return ElasticRun.run(supervisor, { plan, elastic: plan.elastic, starter, meeting, outputs });
}

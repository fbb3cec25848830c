import { rmSync } from 'node:fs';
import { isLoopback, requireLoopback } from '../environment/network';
import { unknownVariableWarning } from '../environment/variables';
import { requireNode } from '../node-version';
import { makeSocketFolder } from '../rendezvous/socket-folder';
import { conclude, type LaunchResult } from './conclude';
import { crowdWarning } from './crowd-warning';
import { planLaunch, portWords, type LaunchOptions, type LaunchPlan } from './launch-options';
import { findFreePort, requireFreePort } from './master-port';
import { RankOutputs } from './rank-outputs';
import { RankProcess } from './rank-process';
import { type Meeting, rankCommand } from './rank-command';
import { chooseRunId } from './rank-variables';
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
  if (plan.remote !== undefined) {
    const { launchOnHosts } = await import('./hosts/launch-on-hosts');
    return launchOnHosts(plan, plan.remote);
  }
  const env = { ...process.env, ...plan.env };
  const runToken = chooseRunToken(plan, env);
  const masterPort = await choosePort(plan);
  const outputs = new RankOutputs(plan);
  const runId = chooseRunId(plan, masterPort, env);
  const socketFolder = trySocketFolder();
  const meeting = { masterPort, runToken, runId, socketFolder };
  const warnings = [
    plan.nodeRank === 0 && unknownVariableWarning(env),
    plan.tokenFile && tokenFileWarning(plan.tokenFile),
    crowdWarning(plan.ranks),
  ];
  try {
    for (const warning of warnings) if (warning) await outputs.say([`gradring: ${warning}`]);
    return await conclude(await runRanks(plan, meeting, outputs), outputs, plan.worldSize);
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

async function choosePort(plan: LaunchPlan): Promise<number> {
  const { masterAddr, masterPort, nodeRank, worldSize, elastic, words } = plan;
  if (isLoopback(masterAddr) && (worldSize > 1 || elastic !== undefined)) requireLoopback();
  if (masterPort === undefined) return findFreePort(masterAddr, portWords(words, 'this host'));
  if (nodeRank === 0) await requireFreePort(masterAddr, masterPort, words.nameOf('masterPort'));
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

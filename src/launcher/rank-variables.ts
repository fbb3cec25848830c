import { createHash, randomBytes } from 'node:crypto';
import type { LaunchPlan } from './launch-options';

/** The environment of one rank, given the port at which the ranks will meet and the {@link chooseRunId run's id}. */
export function rankVariables(
  plan: Pick<LaunchPlan, 'firstRank' | 'worldSize' | 'masterAddr'>,
  localRank: number,
  masterPort: number,
  runId: string,
): Record<string, string> {
  return {
    RANK: String(plan.firstRank + localRank),
    LOCAL_RANK: String(localRank),
    WORLD_SIZE: String(plan.worldSize),
    MASTER_ADDR: plan.masterAddr,
    MASTER_PORT: String(masterPort),
    GRADRING_RUN_ID: runId,
    TORCHELASTIC_USE_AGENT_STORE: 'False', // torchrun may have started the launcher, but has no part in this ring
  };
}

/**
 * The id that distinguishes this run from others: `GRADRING_RUN_ID` if it is given, else 32 random hex digits.
 * Launchers on several nodes cannot agree on random ones, so they use a hash of the master's address and port. It is no
 * secret.
 */
export function chooseRunId(plan: LaunchPlan, masterPort: number, env: NodeJS.ProcessEnv): string {
  if (env['GRADRING_RUN_ID']) return env['GRADRING_RUN_ID'];
  if (plan.task?.runId) return plan.task.runId;
  if (plan.nodes === 1) return randomBytes(16).toString('hex');
  return createHash('sha256').update(`${plan.masterAddr}:${masterPort}`).digest('hex').slice(0, 32);
}

import { allocatorVariables } from './allocator-variables';
import { gpuVariables } from './gpu-variables';
import type { LaunchPlan } from './launch-options';
import type { RankOutputs } from './rank-outputs';
import type { RankCommand } from './rank-process';
import { rankVariables } from './rank-variables';
import { threadVariables } from './thread-variables';

/** What the ranks must know to meet, beside the plan. */
export interface Meeting {
  readonly masterPort: number;
  readonly runToken: string | undefined;
  readonly runId: string;
  /** Where the ranks of this host make their unix sockets. Undefined if no folder could be made. */
  readonly socketFolder: string | undefined;
}

/** What a plan says about the ranks of one host. */
type RankPlan = Pick<
  LaunchPlan,
  'ranks' | 'firstRank' | 'worldSize' | 'masterAddr' | 'folder' | 'script' | 'args' | 'nodeArgs' | 'gpusPerRank' | 'env'
>;

/**
 * How to start a rank.
 *
 * @param variables More variables for its environment.
 */
export function rankCommand(
  plan: RankPlan,
  { masterPort, runToken, runId, socketFolder }: Meeting,
  outputs: Pick<RankOutputs, 'colors'> & Partial<Pick<RankOutputs, 'columns'>>,
  localRank: number,
  variables: Readonly<Record<string, string>> = {},
): RankCommand {
  const inherited = { ...process.env, ...plan.env };
  const env = {
    ...inherited,
    ...allocatorVariables(inherited),
    ...threadVariables(plan.ranks, inherited),
    ...gpuVariables(plan, localRank, inherited),
    ...outputs.colors,
    ...outputs.columns,
    ...(runToken !== undefined && { GRADRING_RUN_TOKEN: runToken }),
    ...(socketFolder !== undefined && { GRADRING_SOCKET_FOLDER: socketFolder }),
    ...rankVariables(plan, localRank, masterPort, runId),
    ...variables,
  };
  const { folder, nodeArgs, script, args } = plan;
  return { rank: plan.firstRank + localRank, folder, nodeArgs, script, args, env, socketFolder };
}

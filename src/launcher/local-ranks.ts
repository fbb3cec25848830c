import { rmSync } from 'node:fs';
import { attempt } from '../attempt';
import { makeSocketFolder } from '../rendezvous/socket-folder';
import { spawnGuarded } from './guarded-process';
import { allocatorVariables, garbageOptions, gpuVariables, threadVariables } from './host-resources';
import type { LaunchPlan } from './launch-options';
import { RankProcess } from './rank-process';
import type { RankStart, RankStarter } from './rank-starter';

/** What a plan says about the ranks of one host. */
export type RankPlan = Pick<
  LaunchPlan,
  'ranks' | 'firstRank' | 'worldSize' | 'folder' | 'script' | 'args' | 'nodeArgs' | 'gpusPerRank' | 'env'
>;

/** Starts ranks on this host. */
export class LocalRanks implements RankStarter {
  private made: { readonly socketFolder: string | undefined } | undefined;

  constructor(private readonly plan: RankPlan) {}

  start(localRank: number, told: RankStart): RankProcess {
    const { firstRank, ranks, nodeArgs, script, args, folder } = this.plan;
    const env = this.environment(localRank, told);
    const { socketFolder } = this;
    const command = [...garbageOptions(ranks), ...nodeArgs, script, ...args];
    return new RankProcess(firstRank + localRank, () => spawnGuarded(command, { env, folder, socketFolder }));
  }

  whyNoStart(): undefined {
    return undefined;
  }

  close(): void {
    if (this.made?.socketFolder !== undefined) rmSync(this.made.socketFolder, { recursive: true, force: true });
  }

  /**
   * For the unix sockets of the ranks. Undefined if none can be made: ranks that need one report why. It is made for
   * the first rank: the ranks remove it if this process ends without doing so, and before there are any, nobody would.
   */
  private get socketFolder(): string | undefined {
    this.made ??= { socketFolder: attempt(makeSocketFolder) };
    return this.made.socketFolder;
  }

  private environment(localRank: number, told: RankStart): NodeJS.ProcessEnv {
    const { plan, socketFolder } = this;
    const inherited = { ...process.env, ...plan.env };
    return {
      ...inherited,
      ...allocatorVariables(inherited),
      ...threadVariables(plan.ranks, inherited),
      ...gpuVariables(plan.gpusPerRank, localRank, inherited),
      ...(told.runToken !== undefined && { GRADRING_RUN_TOKEN: told.runToken }),
      ...(socketFolder !== undefined && { GRADRING_SOCKET_FOLDER: socketFolder }),
      RANK: String(plan.firstRank + localRank),
      LOCAL_RANK: String(localRank),
      WORLD_SIZE: String(plan.worldSize),
      MASTER_ADDR: told.masterAddr,
      MASTER_PORT: String(told.masterPort),
      GRADRING_RUN_ID: told.runId,
      TORCHELASTIC_USE_AGENT_STORE: 'False', // torchrun may have started the launcher, but has no part in this ring
      ...told.variables,
    };
  }
}

import cluster from 'node:cluster';
import type { Scheduler } from './scheduler';
import { wrongEnvironment } from './variables';

/**
 * What starts several copies of a program without telling each how many there are. The copies have no place in a common
 * ring: each would be a ring of its own.
 */
export const COPIES: readonly Scheduler[] = [
  {
    ...{ name: 'pm2', mark: 'pm_id', isThere: env => Boolean(env['pm_id']) && hasSeveral(env) },
    passing: variable => `pm2 start with ${variable} in "env" of its configuration`,
    placeOf(env) {
      throw wrongEnvironment(
        `pm2 runs several copies of this program (in this one NODE_APP_INSTANCE is ${env['NODE_APP_INSTANCE']}), and each would be a ring of its own. Let pm2 run one: pm2 start 'npx gradring run -n 4 train.js' --stop-exit-codes 0. To train alone in each, set RANK=0 and WORLD_SIZE=1.`,
      );
    },
  },
  {
    // What runs in a cluster of pm2 has its variables. There may be one such process.
    ...{ name: 'node:cluster', mark: 'NODE_UNIQUE_ID', isThere: env => cluster.isWorker && !env['pm_id'] },
    passing: variable => `cluster.fork({ ${variable}: … })`,
    placeOf() {
      throw wrongEnvironment(
        `This process is worker ${cluster.worker?.id} of a node:cluster, and each worker would be a ring of its own. Start the ranks with 'gradring run', or with launch() in the primary process. To train alone in each, set RANK=0 and WORLD_SIZE=1, or call connect({ rank: 0, worldSize: 1 }).`,
      );
    },
  },
];

/** Whether pm2 has started several. It counts instances from 0, and does not always correct their number. */
function hasSeveral(env: NodeJS.ProcessEnv): boolean {
  return Number(env['instances']) > 1 || Number(env['NODE_APP_INSTANCE']) > 0;
}

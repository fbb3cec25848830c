import { MAX_PORT } from './network';
import type { Scheduler } from './scheduler';
import { DEFAULT_MASTER_PORT, MAX_WORLD_SIZE, readInteger } from './variables';

/**
 * The pods of a TrainJob of Kubeflow Trainer whose runtime has `mlPolicy: torch`. It sets the variables in which
 * torchrun finds its options: one launcher for each pod. How many ranks that starts is in PET_NPROC_PER_NODE.
 */
export const KUBEFLOW: Scheduler = {
  ...{ name: 'Kubeflow Trainer', mark: 'PET_NNODES -u PET_NODE_RANK' },
  // One of the two without the other is an error. The process would train alone if it did not count.
  isThere: env => Boolean(env['PET_NNODES'] || env['PET_NODE_RANK']),
  passing: variable => `spec.trainer.env: [{ name: ${variable}, value: … }] in the TrainJob`,
  unknownMaster:
    'PET_NNODES says that there are several nodes, but not where node 0 is. Set PET_MASTER_ADDR, or MASTER_ADDR, to its name.',
  isHomeless: true,
  placeOf(env) {
    const worldSize = readInteger(env, 'PET_NNODES', 1, MAX_WORLD_SIZE);
    return {
      rank: readInteger(env, 'PET_NODE_RANK', 0, worldSize - 1),
      ...{ worldSize, localRank: 0, localSize: 1, runId: '' },
      masterAddr: env['PET_MASTER_ADDR'] || undefined,
      masterPort: readInteger(env, 'PET_MASTER_PORT', 1, MAX_PORT, DEFAULT_MASTER_PORT),
    };
  },
};

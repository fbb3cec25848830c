import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './integer';
import { LOOPBACK, type Scheduler } from './scheduler';

/** Slurm, for the tasks of a step: what `srun` starts. */
export const SLURM: Scheduler = {
  name: 'Slurm',
  passing: variable => `export ${variable}=… before srun`,
  placeOf(env) {
    if (!isTask(env)) return undefined;
    const worldSize = readInteger(env, 'SLURM_STEP_NUM_TASKS', 1, MAX_WORLD_SIZE);
    const rank = readInteger(env, 'SLURM_PROCID', 0, worldSize - 1);
    return {
      ...{ rank, worldSize, localRank: readInteger(env, 'SLURM_LOCALID', 0, MAX_WORLD_SIZE - 1) },
      masterAddr: masterOf(env, rank),
      runId: `slurm-${env['SLURM_JOB_ID']}.${env['SLURM_STEP_ID']}`,
    };
  },
};

/** The number of tasks of the job, if this process is in it, but is none of the tasks: they are for `srun` to start. */
export function slurmTasksOutside(env: NodeJS.ProcessEnv): number {
  if (isTask(env) || !env['SLURM_JOB_ID']) return 0;
  return readInteger(env, 'SLURM_NTASKS', 0, Infinity, 0);
}

/** The script of a batch job has the variables of a task, too, but no step. */
function isTask(env: NodeJS.ProcessEnv): boolean {
  return Boolean(env['SLURM_PROCID'] && env['SLURM_STEP_ID'] && env['SLURM_STEP_NUM_TASKS']);
}

/** The node of the first task. (SLURM_LAUNCH_NODE_IPADDR is where `srun` runs, which may be a login node.) */
function masterOf(env: NodeJS.ProcessEnv, rank: number): string | undefined {
  if (env['MASTER_ADDR']) return env['MASTER_ADDR'];
  if (env['SLURM_STEP_NUM_NODES'] === '1') return LOOPBACK;
  const list = env['SLURM_STEP_NODELIST'];
  if (!list) return undefined;
  const first = firstHost(list);
  const own = env['SLURMD_NODENAME'];
  // So it may be with --distribution=arbitrary.
  if (rank === 0 && own && own !== first) {
    throw wrongEnvironment(
      `Slurm runs task 0 on ${own}, which is not the first node of ${list}: export MASTER_ADDR=${own} before srun.`,
    );
  }
  return first;
}

/** The first host of a list such as `n[01-03,7],gpu5` or `rack[1-2]n[4,6]`. */
export function firstHost(list: string): string {
  const [first] = /^(?:[^,[\]]|\[[^\]]*\])*/.exec(list)!;
  return first.replace(/\[([^\],-]*)[^\]]*\]/g, '$1');
}

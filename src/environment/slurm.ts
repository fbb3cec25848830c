import type { Scheduler } from './scheduler';
import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './variables';

/** Slurm, for the tasks of a step: what `srun` starts. */
export const SLURM: Scheduler = {
  ...{ name: 'Slurm', mark: 'SLURM_PROCID', isThere: isTask },
  passing: variable => `export ${variable}=… before srun`,
  placeOf(env) {
    const worldSize = readInteger(env, 'SLURM_STEP_NUM_TASKS', 1, MAX_WORLD_SIZE);
    if (differsFromJob(env)) {
      throw wrongEnvironment(
        `SLURM_STEP_TASKS_PER_NODE ('${env['SLURM_STEP_TASKS_PER_NODE']}') and SLURM_TASKS_PER_NODE ('${env['SLURM_TASKS_PER_NODE']}') differ, so gradring cannot tell whether this is one of ${worldSize} tasks. Start it with srun without --preserve-env (-E). If it is a script that was submitted within a step, submit it with 'env -u SLURM_STEP_ID sbatch'.`,
      );
    }
    const rank = readInteger(env, 'SLURM_PROCID', 0, worldSize - 1);
    return {
      ...{ rank, worldSize, localRank: readInteger(env, 'SLURM_LOCALID', 0, MAX_WORLD_SIZE - 1) },
      localSize: env['SLURM_STEP_NUM_NODES'] === '1' ? worldSize : env['SLURM_GTIDS']?.split(',').length,
      masterAddr: masterOf(env, rank),
      runId: `slurm-${env['SLURM_JOB_ID']}.${env['SLURM_STEP_ID']}`,
    };
  },
};

/**
 * The numbers of tasks and nodes of the job, if this process is in a job but is none of its tasks, which `srun` starts.
 * Otherwise 1 and 1. A job with several nodes has at least one task on each, even if no number of tasks was given.
 */
export function slurmJobAround(env: NodeJS.ProcessEnv): { readonly tasks: number; readonly nodes: number } {
  if (isTask(env) || !env['SLURM_JOB_ID']) return { tasks: 1, nodes: 1 };
  const most = (...names: string[]) => Math.max(1, ...names.map(name => readInteger(env, name, 0, 2 ** 31, 1)));
  const nodes = most('SLURM_JOB_NUM_NODES', 'SLURM_NNODES', 'SLURM_HET_SIZE');
  return { nodes, tasks: Math.max(nodes, most('SLURM_NTASKS')) };
}

/**
 * Whether `srun` started this process as a task. The script of a batch job has SLURM_PROCID too, but no step. Two other
 * processes have the variables of a step and are no tasks: a script that was submitted within a step, and the shell of
 * `salloc`, which may be a step of its own. In both, the variables of step and job differ. If the step has several
 * tasks, `placeOf` throws.
 */
function isTask(env: NodeJS.ProcessEnv): boolean {
  if (differsFromJob(env) && env['SLURM_STEP_NUM_TASKS'] === '1') return false;
  return Boolean(env['SLURM_PROCID'] && env['SLURM_STEP_ID'] && env['SLURM_STEP_NUM_TASKS']);
}

/**
 * Whether the tasks of the job differ from those of the step. In a task they are the same, unless `srun` preserved the
 * variables of the job (--preserve-env).
 */
function differsFromJob(env: NodeJS.ProcessEnv): boolean {
  const ofStep = env['SLURM_STEP_TASKS_PER_NODE'];
  return Boolean(ofStep && env['SLURM_TASKS_PER_NODE'] && ofStep !== env['SLURM_TASKS_PER_NODE']);
}

/** The node of the first task. (SLURM_LAUNCH_NODE_IPADDR is where `srun` runs, which may be a login node.) */
function masterOf(env: NodeJS.ProcessEnv, rank: number): string | undefined {
  const list = env['SLURM_STEP_NODELIST'];
  if (!list) return undefined;
  const first = firstHost(list);
  const own = env['SLURMD_NODENAME'];
  // This happens with --distribution=arbitrary.
  if (rank === 0 && own && own !== first && !env['MASTER_ADDR']) {
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

import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Place, Scheduler } from './scheduler';
import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './variables';

/** The variables in which a kind of MPI tells a process its place. */
interface MpiVariables {
  readonly rank: string;
  readonly size: string;
  readonly localRank: string;
  readonly localSize: string;
}

/** `mpirun` of Open MPI. */
export const OPEN_MPI: Scheduler = {
  ...{ name: 'Open MPI', mark: 'OMPI_COMM_WORLD_RANK', isThere: env => Boolean(env['OMPI_COMM_WORLD_RANK']) },
  passing: variable => `mpirun -x ${variable}=…`,
  placeOf: env => ({
    ...placeIn(env, worldVariables('OMPI')),
    runId: env['PMIX_NAMESPACE'] || env['OMPI_MCA_ess_base_jobid'] || undefined,
  }),
};

/** `mpirun_rsh` of MVAPICH. */
export const MVAPICH: Scheduler = {
  ...{ name: 'MVAPICH', mark: 'MV2_COMM_WORLD_RANK', isThere: env => Boolean(env['MV2_COMM_WORLD_RANK']) },
  passing: variable => `mpirun_rsh … ${variable}=… <program>`,
  placeOf: env => ({ ...placeIn(env, worldVariables('MV2')), runId: undefined }),
};

/** Hydra: `mpiexec` of MPICH, MVAPICH and Intel MPI. */
export const HYDRA: Scheduler = {
  ...{ name: 'MPI (Hydra)', mark: 'MPI_LOCALRANKID', isThere: env => Boolean(env['MPI_LOCALRANKID']) },
  passing: variable => `mpiexec -genv ${variable} …`,
  placeOf(env) {
    const local = { localRank: 'MPI_LOCALRANKID', localSize: 'MPI_LOCALNRANKS' };
    const place = placeIn(env, { rank: 'PMI_RANK', size: 'PMI_SIZE', ...local });
    return { ...place, runId: hydraRun(place.localSize === place.worldSize) };
  },
};

/** Other starters that set the variables of PMI, such as those of Cray. Slurm sets them, too. */
export const PMI: Scheduler = {
  ...{ name: 'MPI (PMI)', mark: 'PMI_RANK', isThere: env => Boolean(env['PMI_RANK']) },
  passing: variable => variable,
  placeOf(env) {
    const local = { localRank: 'PMI_LOCAL_RANK', localSize: 'PMI_LOCAL_SIZE' };
    return { ...placeIn(env, { rank: 'PMI_RANK', size: 'PMI_SIZE', ...local }), runId: undefined };
  },
};

/** What other starters set: PMIx, PMI-1 and MVAPICH 3, PALS and ALPS of Cray, Flux, and `blaunch` of LSF. */
const MARKS = [
  ...['PMIX_RANK', 'PMI_ID', 'MVP_COMM_WORLD_RANK', 'PALS_RANKID', 'ALPS_APP_PE', 'FLUX_TASK_RANK', 'LSF_PM_TASKID'],
];

/** A starter that does not say enough, or that gradring does not know. */
export const UNKNOWN: Scheduler = {
  ...{ name: 'another starter', mark: MARKS.join(', '), isThere: env => MARKS.some(mark => env[mark]) },
  passing: variable => variable,
  placeOf(env) {
    const mark = MARKS.find(name => env[name])!;
    throw wrongEnvironment(
      `${mark} is '${env[mark]}', so a starter of parallel programs started this process, but no variable that gradring knows says how many there are. Set RANK, WORLD_SIZE and MASTER_ADDR; or RANK=0 and WORLD_SIZE=1 to train alone.`,
    );
  },
};

function worldVariables(prefix: string): MpiVariables {
  const all = `${prefix}_COMM_WORLD`;
  return { rank: `${all}_RANK`, size: `${all}_SIZE`, localRank: `${all}_LOCAL_RANK`, localSize: `${all}_LOCAL_SIZE` };
}

function placeIn(env: NodeJS.ProcessEnv, names: MpiVariables): Omit<Place, 'runId'> {
  const worldSize = readInteger(env, names.size, 1, MAX_WORLD_SIZE);
  const rank = readInteger(env, names.rank, 0, worldSize - 1);
  const localRank = readInteger(env, names.localRank, 0, MAX_WORLD_SIZE - 1, rank);
  return { rank, worldSize, localRank, localSize: readInteger(env, names.localSize, 0, worldSize, 0) || undefined };
}

/**
 * What distinguishes a run of Hydra: the address of its `mpiexec`, which all its proxies have on their command lines.
 * That of Intel MPI has none, but on one host all ranks have the same proxy.
 */
function hydraRun(isLocal: boolean): string | undefined {
  try {
    for (let pid = process.ppid; pid > 1; pid = parentOf(pid)) {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (path.basename(words[0]!) !== 'hydra_pmi_proxy') continue;
      const option = words.indexOf('--control-port');
      return option >= 0 ? words[option + 1] : isLocal ? String(pid) : undefined;
    }
  } catch {
    // no Linux, or a container that hides the proxy
  }
  return undefined;
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
}

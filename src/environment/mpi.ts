import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from './integer';
import { LOOPBACK, type Scheduler } from './scheduler';

/** `mpirun` of Open MPI. */
export const OPEN_MPI: Scheduler = {
  name: 'Open MPI',
  passing: variable => `mpirun -x ${variable}=…`,
  placeOf(env) {
    if (!env['OMPI_COMM_WORLD_RANK']) return undefined;
    const worldSize = readInteger(env, 'OMPI_COMM_WORLD_SIZE', 1, MAX_WORLD_SIZE);
    const rank = readInteger(env, 'OMPI_COMM_WORLD_RANK', 0, worldSize - 1);
    const localRank = readInteger(env, 'OMPI_COMM_WORLD_LOCAL_RANK', 0, MAX_WORLD_SIZE - 1, rank);
    const isLocal = env['OMPI_COMM_WORLD_LOCAL_SIZE'] === env['OMPI_COMM_WORLD_SIZE'];
    const run = env['PMIX_NAMESPACE'] || env['OMPI_MCA_ess_base_jobid'];
    return { rank, worldSize, localRank, masterAddr: isLocal ? LOOPBACK : undefined, runId: run ? `mpi-${run}` : '' };
  },
};

/** Hydra: `mpiexec` of MPICH, MVAPICH and Intel MPI. Also other starters that speak PMI. */
export const PMI: Scheduler = {
  name: 'MPI (PMI)',
  passing: variable => `mpiexec -genv ${variable} …`,
  placeOf(env) {
    if (!env['PMI_RANK']) return undefined;
    const worldSize = readInteger(env, 'PMI_SIZE', 1, MAX_WORLD_SIZE);
    const rank = readInteger(env, 'PMI_RANK', 0, worldSize - 1);
    const localRank = readInteger(env, 'MPI_LOCALRANKID', 0, MAX_WORLD_SIZE - 1, rank);
    const isLocal = env['MPI_LOCALNRANKS'] === env['PMI_SIZE'];
    return { rank, worldSize, localRank, masterAddr: isLocal ? LOOPBACK : undefined, runId: '' };
  },
};

/** A starter of which nothing is known but that it speaks PMIx. */
export const PMIX: Scheduler = {
  name: 'PMIx',
  passing: variable => variable,
  placeOf(env) {
    if (!env['PMIX_RANK']) return undefined;
    throw wrongEnvironment(
      `PMIX_RANK is '${env['PMIX_RANK']}', so a starter of parallel programs started this process, but no variable says how many there are. Set RANK, WORLD_SIZE and MASTER_ADDR; or RANK=0 and WORLD_SIZE=1 to train alone.`,
    );
  },
};

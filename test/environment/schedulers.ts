/** What `srun -N2 -n3` set for the last task (Slurm 22.05). */
export const SLURM = {
  ...{ SLURM_JOB_ID: '1', SLURM_STEP_ID: '0', SLURM_NTASKS: '3', SLURM_STEP_NUM_TASKS: '3' },
  ...{ SLURM_PROCID: '2', SLURM_LOCALID: '0', SLURM_STEP_NUM_NODES: '2', SLURM_STEP_NODELIST: 'n[1-2]' },
  ...{ SLURM_TASKS_PER_NODE: '2,1', SLURM_STEP_TASKS_PER_NODE: '2,1', SLURM_GTIDS: '2', SLURM_JOB_NUM_NODES: '2' },
  ...{ SLURMD_NODENAME: 'n2', SLURM_LAUNCH_NODE_IPADDR: '10.0.0.9', SLURM_JOB_NODELIST: 'n[1-2]' },
};

/** What `srun -n1` set in a job with four tasks: one task is a ring of one on purpose. */
export const ALONE_IN_SLURM = {
  ...{ SLURM_JOB_ID: '3', SLURM_STEP_ID: '0', SLURM_NTASKS: '1', SLURM_STEP_NUM_TASKS: '1', SLURM_NNODES: '1' },
  ...{ SLURM_PROCID: '0', SLURM_LOCALID: '0', SLURM_STEP_NUM_NODES: '1', SLURM_STEP_NODELIST: 'n1' },
  ...{ SLURM_TASKS_PER_NODE: '1', SLURM_STEP_TASKS_PER_NODE: '1', SLURM_GTIDS: '0', SLURM_JOB_NUM_NODES: '2' },
  ...{ SLURMD_NODENAME: 'n1', SLURM_JOB_NODELIST: 'n[1-2]' },
};

/** What Slurm set for the script of `sbatch -n4`. */
export const SLURM_BATCH = {
  ...{ SLURM_JOB_ID: '2', SLURM_PROCID: '0', SLURM_LOCALID: '0', SLURM_NTASKS: '4', SLURM_TASKS_PER_NODE: '4' },
  ...{ SLURM_JOB_NUM_NODES: '1', SLURM_NNODES: '1', SLURMD_NODENAME: 'n1', SLURM_GTIDS: '0' },
};

/** Processes of a job with several tasks that are none of them, as Slurm 22.05 started them. */
export const SLURM_OUTSIDE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'the script of sbatch -n4': SLURM_BATCH,
  'the shell of salloc -n2': { SLURM_JOB_ID: '1', SLURM_NTASKS: '2' },
  'the shell of salloc -N2 -n4, which is a step of its own': {
    ...{ SLURM_JOB_ID: '4', SLURM_NTASKS: '4', SLURM_NNODES: '2', SLURM_JOB_NUM_NODES: '2', SLURM_GTIDS: '0' },
    ...{ SLURM_STEP_ID: '4294967290', SLURM_STEP_NUM_TASKS: '1', SLURM_STEP_NUM_NODES: '1', SLURM_PROCID: '0' },
    ...{ SLURM_LOCALID: '0', SLURM_STEP_NODELIST: 'n1', SLURM_STEP_TASKS_PER_NODE: '1', SLURM_TASKS_PER_NODE: '3,1' },
  },
  'the script of sbatch -N2': {
    ...{ SLURM_JOB_ID: '7', SLURM_PROCID: '0', SLURM_LOCALID: '0', SLURM_TASKS_PER_NODE: '1(x2)', SLURM_GTIDS: '0' },
    ...{ SLURM_JOB_NUM_NODES: '2', SLURM_NNODES: '2' },
  },
  'the script of a heterogeneous job': {
    ...{ SLURM_JOB_ID: '8', SLURM_PROCID: '0', SLURM_LOCALID: '0', SLURM_NTASKS: '1', SLURM_TASKS_PER_NODE: '1' },
    ...{ SLURM_JOB_NUM_NODES: '1', SLURM_NNODES: '1', SLURM_HET_SIZE: '2', SLURM_NTASKS_HET_GROUP_1: '2' },
  },
  'the script of sbatch -n4 that was submitted within a step': {
    ...{ SLURM_JOB_ID: '6', SLURM_NTASKS: '4', SLURM_JOB_NUM_NODES: '1', SLURM_NNODES: '1', SLURM_PROCID: '0' },
    ...{ SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '1', SLURM_STEP_NUM_NODES: '1', SLURM_STEP_NODELIST: 'n3' },
    ...{ SLURM_LOCALID: '0', SLURM_STEP_TASKS_PER_NODE: '1', SLURM_TASKS_PER_NODE: '4', SLURMD_NODENAME: 'n1' },
  },
  'the script of sbatch -N2 that was submitted within a step of one task': {
    ...{ SLURM_JOB_ID: '9', SLURM_NTASKS: '1', SLURM_JOB_NUM_NODES: '2', SLURM_NNODES: '2', SLURM_PROCID: '0' },
    ...{ SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '1', SLURM_STEP_NUM_NODES: '1', SLURM_STEP_NODELIST: 'n3' },
    ...{ SLURM_LOCALID: '0', SLURM_STEP_TASKS_PER_NODE: '1', SLURM_TASKS_PER_NODE: '1(x2)', SLURMD_NODENAME: 'n1' },
  },
};

/** What `srun -E -n2 -O` sets for the second task in a job of one task: it keeps the job's variables. */
export const SLURM_PRESERVED = {
  ...{ ...ALONE_IN_SLURM, SLURM_PROCID: '1', SLURM_LOCALID: '1', SLURM_GTIDS: '0,1' },
  ...{ SLURM_STEP_NUM_TASKS: '2', SLURM_STEP_TASKS_PER_NODE: '2' },
};

/** What `pm2 start -i 2` set for the first of two copies (pm2 7.0), and `pm2 start` for the only one. */
export const PM2 = { pm_id: '1', instances: '2', NODE_APP_INSTANCE: '0', exec_mode: 'cluster_mode' };
export const ALONE_IN_PM2 = { pm_id: '0', instances: '1', NODE_APP_INSTANCE: '0', exec_mode: 'fork_mode' };

/** What `mpirun -n 2` set for the second process (Open MPI 4.1). */
export const OPEN_MPI = {
  ...{ OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2' },
  ...{ OMPI_COMM_WORLD_LOCAL_RANK: '1', OMPI_COMM_WORLD_LOCAL_SIZE: '2' },
  ...{ PMIX_RANK: '1', PMIX_NAMESPACE: '475529217' },
};

/** What the second of two pods of the TrainJob `train` has, by the source of Kubeflow Trainer 2.3 (plugins/torch). */
export const KUBEFLOW = {
  ...{ PET_NNODES: '2', PET_NPROC_PER_NODE: '2', PET_NODE_RANK: '1', JOB_COMPLETION_INDEX: '1' },
  ...{ PET_MASTER_ADDR: 'train-node-0-0.train', PET_MASTER_PORT: '29500' },
};

/** The only pod of a TrainJob. */
export const ALONE_IN_KUBEFLOW = { ...KUBEFLOW, PET_NNODES: '1', PET_NODE_RANK: '0', JOB_COMPLETION_INDEX: '0' };

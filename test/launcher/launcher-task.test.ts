import { availableParallelism } from 'node:os';
import path from 'node:path';
import { type LaunchOptions, planLaunch } from '../../src/launcher/launch-options';
import { ON_THIS_HOST, requireOneLauncher } from '../../src/launcher/launcher-task';
import {
  ALONE_IN_KUBEFLOW,
  ALONE_IN_PM2,
  ALONE_IN_SLURM,
  KUBEFLOW,
  OPEN_MPI,
  PM2,
  SLURM,
  SLURM_OUTSIDE,
} from '../environment/schedulers';

const before = { ...process.env };
afterEach(() => (process.env = { ...before }));

/** The plan of a launcher in this environment. */
function plan(env: NodeJS.ProcessEnv, options: Partial<LaunchOptions> = {}) {
  Object.assign(process.env, env);
  return planLaunch({ ...(options.hosts === undefined && { ranks: 2 }), script: SCRIPT, ...options });
}

const SCRIPT = path.join(__dirname, '../../dist/cli.js');
const HOSTS = [{ host: 'a', ranks: 2 }];
/** The only task of its node, of two. */
const TASK = {
  ...{ ...SLURM, SLURM_PROCID: '1', SLURM_GTIDS: '1', SLURM_NTASKS: '2', SLURM_STEP_NUM_TASKS: '2' },
  ...{ SLURM_TASKS_PER_NODE: '1(x2)', SLURM_STEP_TASKS_PER_NODE: '1(x2)' },
};

test.each<[string, NodeJS.ProcessEnv, Partial<LaunchOptions>, object]>([
  ['a task', TASK, {}, { nodes: 2, nodeRank: 1, firstRank: 2, worldSize: 4, masterAddr: 'n1' }],
  ['a task, and --nodes', TASK, { nodes: 2 }, { nodes: 2, nodeRank: 1, masterAddr: 'n1' }],
  ['a task, and another master', TASK, { masterAddr: 'b', masterPort: 7 }, { masterAddr: 'b', masterPort: 7 }],
  ['a task, and another place', TASK, { nodes: 1, nodeRank: 0 }, { nodes: 1, worldSize: 2, task: undefined }],
  ['a rank, and another place', { RANK: '0', WORLD_SIZE: '2' }, { nodes: 1, nodeRank: 0 }, { nodes: 1 }],
  ['the only task', ALONE_IN_SLURM, {}, { nodes: 1, task: undefined }],
  ['one of two copies of pm2, and another place', PM2, { nodes: 1, nodeRank: 0 }, { nodes: 1, task: undefined }],
  ['the only copy of pm2', ALONE_IN_PM2, {}, { nodes: 1, task: undefined }],
  ['the only rank', { RANK: '0', WORLD_SIZE: '1' }, {}, { nodes: 1, task: undefined }],
  ['a job on one node', SLURM_OUTSIDE['the script of sbatch -n4']!, {}, { nodes: 1, task: undefined }],
  ['a job on two nodes, and hosts', SLURM_OUTSIDE['the script of sbatch -N2']!, { hosts: HOSTS }, { nodes: 1 }],
  [
    'a pod of a TrainJob',
    KUBEFLOW,
    {},
    { nodes: 2, nodeRank: 1, worldSize: 4, masterAddr: 'train-node-0-0.train', masterPort: 29500 },
  ],
  ['a pod of a TrainJob, and another master', KUBEFLOW, { masterAddr: 'b', masterPort: 7 }, { masterPort: 7 }],
  ['a pod of a TrainJob, and another place', KUBEFLOW, { nodes: 1, nodeRank: 0 }, { nodes: 1, task: undefined }],
  ['the only pod of a TrainJob', ALONE_IN_KUBEFLOW, {}, { nodes: 1, task: undefined, masterPort: undefined }],
])('the place of a launcher in %s', (_, env, options, expected) => {
  expect(plan(env, options)).toMatchObject(expected);
});

test.each<[string, NodeJS.ProcessEnv, Partial<LaunchOptions>, RegExp]>([
  [
    'a rank',
    { RANK: '0', WORLD_SIZE: '2' },
    {},
    /^RANK is set, .* Unset RANK and WORLD_SIZE; or give nodes and nodeRank/,
  ],
  ['a task, with an old RANK', { ...TASK, RANK: '0' }, {}, /^RANK is set/],
  ['a task, with another number of nodes', TASK, { nodes: 3 }, /^Slurm says that this is launcher 1 of 2/],
  ['a task, with another number', TASK, { nodeRank: 0 }, /^Slurm says that this is launcher 1 of 2/],
  ['each of two tasks of a host', OPEN_MPI, {}, /^Open MPI has started several launchers on this host/],
  ['one of two copies of pm2', PM2, {}, /^pm2 runs several copies .* in any case, give nodes 1 and nodeRank 0\.$/],
  ['a pod of a TrainJob, with another number of nodes', KUBEFLOW, { nodes: 3 }, /^Kubeflow Trainer says .* 1 of 2; if/],
  ['a pod of a TrainJob, with hosts', KUBEFLOW, { hosts: HOSTS }, /^Kubeflow Trainer has started 2 launchers/],
  ['a pod of a TrainJob without its node', { ...KUBEFLOW, PET_NODE_RANK: '' }, {}, /^PET_NODE_RANK .* nodes 1 and/],
  ['each of two tasks, with hosts', TASK, { hosts: HOSTS }, /^Slurm has started 2 launchers/],
  ...[
    'the shell of salloc -N2 -n4, which is a step of its own',
    'the script of sbatch -N2',
    'the script of a heterogeneous job',
  ].map((who): [string, NodeJS.ProcessEnv, Partial<LaunchOptions>, RegExp] => [
    ...([who, SLURM_OUTSIDE[who]!, {}, /^This job of Slurm has 2 nodes, .* srun --ntasks-per-node=1/] as const),
  ]),
])('a launcher in %s is an error, never one of several rings', (_, env, options, message) => {
  expect(() => plan(env, options)).toThrow(message);
  expect(() => plan(env, options)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ENVIRONMENT' }));
});

describe('without a number of ranks, PET_NPROC_PER_NODE says it', () => {
  const ranksOf = (PET_NPROC_PER_NODE: string, gpus = '', options: Partial<LaunchOptions> = {}) => {
    Object.assign(process.env, { CUDA_VISIBLE_DEVICES: gpus, PET_NPROC_PER_NODE });
    return planLaunch({ script: SCRIPT, ...options }).ranks;
  };
  const cores = availableParallelism();

  test.each<[string, string, Partial<LaunchOptions>, number]>([
    ['3', '', {}, 3],
    ['3', '', { ranks: 2 }, 2],
    ['x', '', { hosts: HOSTS }, 2],
    ['cpu', '0,1', {}, cores],
    ['gpu', '0,1', {}, 2],
    ['auto', '0,1,2', {}, 3],
    ['auto', '', {}, cores],
    ['auto', '0,1,2,3', { gpusPerRank: 2 }, 2],
    ['auto', '0,1', { gpusPerRank: 0 }, cores],
  ])('%s, where the GPUs are [%s], by %j: %s', (text, gpus, options, ranks) => {
    expect(ranksOf(text, gpus, options)).toBe(ranks);
  });

  test.each<[string, Partial<LaunchOptions>, RegExp]>([
    ['0', {}, /^PET_NPROC_PER_NODE is '0'; it must be a whole number from 1 to 65535\.$/],
    ['65536', {}, /^PET_NPROC_PER_NODE is '65536'; it must be a whole number/],
    ['two', {}, /^PET_NPROC_PER_NODE is 'two'; it must be .*, or cpu, gpu or auto\.$/],
    ['gpu', {}, /^PET_NPROC_PER_NODE is 'gpu', but no rank would have a GPU on this host\. Set it to/],
    ['gpu', { gpusPerRank: 0 }, /no rank would have a GPU/],
  ])('%s with %j is an error', (text, options, message) => {
    const failure = expect.objectContaining({ code: 'ERR_INVALID_ENVIRONMENT' }) as Error;
    expect(() => ranksOf(text, '', options)).toThrow(message);
    expect(() => ranksOf(text, '', options)).toThrow(failure);
  });

  test('nothing says nothing', () => {
    expect(() => ranksOf('')).toThrow(/^How many ranks\?/);
  });
});

describe('a command that starts rings of its own', () => {
  test.each<[string, NodeJS.ProcessEnv]>([
    ['a rank', { RANK: '0', WORLD_SIZE: '2' }],
    ['a task', TASK],
    ['a process of Open MPI', OPEN_MPI],
    ['a pod of a TrainJob', KUBEFLOW],
  ])('refuses to be %s of several', (_, env) => {
    expect(() => requireOneLauncher('study', env)).toThrow(/^study starts its own ranks .* Start it once/);
  });

  test.each<[string, NodeJS.ProcessEnv]>([
    ['nothing', {}],
    ['a rank', { RANK: '0', WORLD_SIZE: '1' }],
    ['the only task', ALONE_IN_SLURM],
    ...Object.entries(SLURM_OUTSIDE),
  ])('may be %s alone, and stays on this host', (_, env) => {
    requireOneLauncher('study', env);
    expect(plan(env, ON_THIS_HOST)).toMatchObject({ nodes: 1, worldSize: 2 });
  });
});

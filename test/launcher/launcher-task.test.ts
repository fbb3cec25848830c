import path from 'node:path';
import { type LaunchOptions, planLaunch } from '../../src/launcher/launch-options';
import { ON_THIS_HOST, requireOneLauncher } from '../../src/launcher/launcher-task';
import { ALONE_IN_PM2, ALONE_IN_SLURM, OPEN_MPI, PM2, SLURM, SLURM_OUTSIDE } from '../environment/schedulers';

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

describe('a command that starts rings of its own', () => {
  test.each<[string, NodeJS.ProcessEnv]>([
    ['a rank', { RANK: '0', WORLD_SIZE: '2' }],
    ['a task', TASK],
    ['a process of Open MPI', OPEN_MPI],
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

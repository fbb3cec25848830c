import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { firstPod } from '../../src/environment/kubernetes';
import { readRankEnvironment } from '../../src/environment/rank-environment';
import { firstHost } from '../../src/environment/slurm';
import { needs, testWhere } from '../support/test-where';
import {
  ALONE_IN_KUBEFLOW,
  ALONE_IN_PM2,
  ALONE_IN_SLURM,
  KUBEFLOW,
  OPEN_MPI,
  PM2,
  SLURM,
  SLURM_BATCH,
  SLURM_OUTSIDE,
  SLURM_PRESERVED,
} from './schedulers';

/** What `mpiexec -n 2` set for the second process (MPICH 4.0). */
const HYDRA = { PMI_RANK: '1', PMI_SIZE: '2', MPI_LOCALRANKID: '1', MPI_LOCALNRANKS: '2', PMI_FD: '8' };
/** The same, by `-n 1`. */
const HYDRA_ALONE = { PMI_RANK: '0', PMI_SIZE: '1', MPI_LOCALRANKID: '0', MPI_LOCALNRANKS: '1' };
const OPEN_MPI_ALONE = {
  ...{ OMPI_COMM_WORLD_RANK: '0', OMPI_COMM_WORLD_SIZE: '1', PMIX_RANK: '0', PMIX_NAMESPACE: '475529218' },
  ...{ OMPI_COMM_WORLD_LOCAL_RANK: '0', OMPI_COMM_WORLD_LOCAL_SIZE: '1' },
};
/** What `mpirun_rsh -n 2` of MVAPICH sets for the second process, by its source. */
const MVAPICH = {
  ...{ MV2_COMM_WORLD_RANK: '1', MV2_COMM_WORLD_SIZE: '2', PMI_ID: '1' },
  ...{ MV2_COMM_WORLD_LOCAL_RANK: '1', MV2_COMM_WORLD_LOCAL_SIZE: '2' },
};
/** Two Jobs of three pods each, as docs/kubernetes/jobset.yaml tells them. */
const JOB_SET = { WORLD_SIZE: '6', GRADRING_JOB_COUNT: '2', MASTER_ADDR: 'a' };
/** What `torchrun --nproc-per-node 2` set for the second process (torch 2.13). */
const TORCHRUN = {
  ...{ RANK: '1', WORLD_SIZE: '2', LOCAL_RANK: '1', MASTER_ADDR: 'localhost', MASTER_PORT: '36183' },
  ...{ TORCHELASTIC_USE_AGENT_STORE: 'True', TORCHELASTIC_RUN_ID: '114eacb3', TORCHELASTIC_RESTART_COUNT: '0' },
};

test.each([
  ['Slurm', SLURM, { rank: 2, worldSize: 3, localRank: 0, masterAddr: 'n1', runId: 'slurm-1.0' }],
  ['Slurm', { ...SLURM, SLURM_STEP_NUM_NODES: '1' }, { rank: 2, worldSize: 3, masterAddr: '127.0.0.1' }],
  ['Slurm', ALONE_IN_SLURM, { rank: 0, worldSize: 1 }],
  ['Slurm', { ...SLURM, PMI_RANK: '2', PMI_SIZE: '3', PMIX_RANK: '2' }, { rank: 2, worldSize: 3, masterAddr: 'n1' }],
  ['Open MPI', OPEN_MPI, { rank: 1, worldSize: 2, localRank: 1, masterAddr: '127.0.0.1', runId: '475529217' }],
  [
    'Open MPI',
    { ...SLURM, ...OPEN_MPI, OMPI_COMM_WORLD_LOCAL_SIZE: '1', MASTER_ADDR: 'n1' },
    { rank: 1, worldSize: 2 },
  ],
  ['Open MPI', { ...ALONE_IN_SLURM, ...OPEN_MPI }, { rank: 1, worldSize: 2 }],
  ['MPI (Hydra)', { ...HYDRA, MASTER_PORT: '7' }, { rank: 1, worldSize: 2, masterAddr: '127.0.0.1', masterPort: 7 }],
  ['MPI (Hydra)', { ...HYDRA, GRADRING_RUN_ID: 'a' }, { rank: 1, localRank: 1, worldSize: 2, runId: 'a' }],
  ['MPI (Hydra)', { ...HYDRA, ...ALONE_IN_SLURM, MASTER_PORT: '7' }, { rank: 1, worldSize: 2 }],
  ['MVAPICH', { ...MVAPICH, MASTER_PORT: '7' }, { rank: 1, localRank: 1, worldSize: 2, masterAddr: '127.0.0.1' }],
  [
    'MPI (PMI)', // of Cray
    { PMI_RANK: '3', PMI_SIZE: '4', PMI_LOCAL_RANK: '1', PMI_LOCAL_SIZE: '2', MASTER_ADDR: 'a', MASTER_PORT: '7' },
    { rank: 3, localRank: 1, worldSize: 4, masterAddr: 'a' },
  ],
  ['Kubernetes', { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2', MASTER_ADDR: 'a' }, { rank: 1, worldSize: 2 }],
  [
    'Kubernetes',
    { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2', MASTER_ADDR: 'a', GRADRING_RUN_ID: 'b' },
    { masterPort: 29500 },
  ],
  ['Kubernetes', { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '1' }, { rank: 0, worldSize: 1 }],
  ['Open MPI', { ...OPEN_MPI, JOB_COMPLETION_INDEX: '0', WORLD_SIZE: '1' }, { rank: 1, worldSize: 2 }],
  ['Kubernetes', { ...JOB_SET, JOB_COMPLETION_INDEX: '0', GRADRING_JOB_INDEX: '1' }, { rank: 3, worldSize: 6 }],
  ['Kubernetes', { ...JOB_SET, JOB_COMPLETION_INDEX: '2', GRADRING_JOB_INDEX: '0' }, { rank: 2, worldSize: 6 }],
  [
    'Kubeflow Trainer',
    KUBEFLOW,
    { rank: 1, worldSize: 2, localRank: 0, masterAddr: 'train-node-0-0.train', masterPort: 29500, hasHome: false },
  ],
  ['Kubeflow Trainer', { ...KUBEFLOW, GRADRING_RUN_ID: 'a', PET_MASTER_PORT: '7' }, { masterPort: 7, runId: 'a' }],
  ['Kubeflow Trainer', { ...KUBEFLOW, PET_MASTER_PORT: '' }, { masterPort: 29500 }],
  ['Kubeflow Trainer', { ...KUBEFLOW, MASTER_ADDR: 'a', MASTER_PORT: '7' }, { masterAddr: 'a', masterPort: 7 }],
  ['Kubeflow Trainer', { ...KUBEFLOW, PET_MASTER_ADDR: '', MASTER_ADDR: 'a' }, { masterAddr: 'a' }],
  ['Kubeflow Trainer', ALONE_IN_KUBEFLOW, { rank: 0, worldSize: 1, masterAddr: '127.0.0.1' }],
  ['Open MPI', { ...ALONE_IN_KUBEFLOW, ...OPEN_MPI }, { rank: 1, worldSize: 2 }],
  [undefined, { ...KUBEFLOW, RANK: '3', WORLD_SIZE: '4', MASTER_ADDR: 'a' }, { rank: 3, worldSize: 4 }],
  ['Slurm', { ...SLURM, WORLD_SIZE: '3' }, { rank: 2, worldSize: 3 }],
  ['Slurm', { ...SLURM, MASTER_ADDR: 'm', MASTER_PORT: '7' }, { rank: 2, masterAddr: 'm', masterPort: 7 }],
  ['Slurm', { ...SLURM, SLURM_PROCID: '0', MASTER_ADDR: 'n2' }, { rank: 0, masterAddr: 'n2' }],
  [undefined, { ...SLURM, ...OPEN_MPI, RANK: '0', WORLD_SIZE: '4' }, { rank: 0, worldSize: 4, masterPort: 29500 }],
  [undefined, { ...SLURM_BATCH, RANK: '0', WORLD_SIZE: '1' }, { rank: 0, worldSize: 1 }],
  [undefined, { ...SLURM_BATCH, SLURM_NTASKS: '1' }, { rank: 0, worldSize: 1 }],
])('the place that %s gives (%#)', (scheduler, env, place) => {
  expect(readRankEnvironment(env)).toMatchObject({ ...place, scheduler });
});

test('the innermost of two schedulers counts, and a debug line says so', () => {
  const library = JSON.stringify(path.join(__dirname, '../../dist/environment/rank-environment.js'));
  const program = `require(${library}).readRankEnvironment()`;
  const env = { ...process.env, ...ALONE_IN_SLURM, ...OPEN_MPI, NODE_DEBUG: 'gradring' };
  const { stderr } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8', env });
  expect(stderr).toMatch(/^GRADRING \d+: rank 1 of 2, by Open MPI, not by Slurm\n$/);
});

test('steps of one job meet at different ports, which no system gives to clients', () => {
  const ports = ['0', '1', '2'].map(SLURM_STEP_ID => readRankEnvironment({ ...SLURM, SLURM_STEP_ID }).masterPort);
  expect(new Set(ports).size).toBe(3);
  for (const port of ports) expect(port).toBeLessThan(30_000);
});

test.each([
  ...Object.entries(SLURM_OUTSIDE).map(([who, env]): [string, NodeJS.ProcessEnv, RegExp] => [
    ...([who, env, /^This job of Slurm has [24] tasks, but this process is none of them/] as const),
  ]),
  [
    'a job with an odd number of tasks',
    { SLURM_JOB_ID: '1', SLURM_NTASKS: 'x' },
    /SLURM_NTASKS is 'x'; .* 0 to \d+\.$/,
  ],
  ['a first task that is not on the first node', { ...SLURM, SLURM_PROCID: '0' }, /export MASTER_ADDR=n2 before srun/],
  ['a task of Slurm without a rank', { ...SLURM, SLURM_PROCID: 'x' }, /SLURM_PROCID is 'x'; it must be .* from 0 to 2/],
  ['Open MPI on several hosts', { ...OPEN_MPI, OMPI_COMM_WORLD_LOCAL_SIZE: '1' }, /mpirun -x MASTER_ADDR=/],
  ['Open MPI without a size', { ...OPEN_MPI, OMPI_COMM_WORLD_SIZE: '' }, /OMPI_COMM_WORLD_SIZE is not set/],
  ['MPICH on several hosts', { ...HYDRA, MPI_LOCALNRANKS: '1' }, /mpiexec -genv MASTER_ADDR /],
  ['MPICH where its proxy is not to be seen', HYDRA, /distinguishes them .* mpiexec -genv MASTER_PORT/],
  ['MVAPICH', MVAPICH, /distinguishes them .* mpirun_rsh … MASTER_PORT=…/],
  [
    'Open MPI alone in one of several tasks',
    { ...SLURM, ...OPEN_MPI_ALONE },
    /^By Open MPI .* 0 of 1, but by Slurm .* 2 of 3/,
  ],
  [
    'two processes of Open MPI in each task',
    { ...SLURM, ...OPEN_MPI },
    /'env -u OMPI_COMM_WORLD_RANK' or 'env -u SLURM_PROCID'/,
  ],
  ['MPICH alone in one of several tasks', { ...SLURM, ...HYDRA_ALONE }, /^By MPI \(Hydra\) .* 0 of 1, but by Slurm/],
  [
    'MPICH in each of two pods',
    { ...HYDRA_ALONE, JOB_COMPLETION_INDEX: '0', WORLD_SIZE: '2' },
    /but by Kubernetes it is 0 of 2/,
  ],
  ...[
    'PMIX_RANK',
    'PMI_ID',
    'MVP_COMM_WORLD_RANK',
    'PALS_RANKID',
    'ALPS_APP_PE',
    'FLUX_TASK_RANK',
    'LSF_PM_TASKID',
  ].map((mark): [string, NodeJS.ProcessEnv, RegExp] => [
    ...([`${mark} alone`, { [mark]: '1' }, new RegExp(`^${mark} is '1'.*no variable that gradring knows`)] as const),
  ]),
  [
    'a task of srun --preserve-env',
    SLURM_PRESERVED,
    /^SLURM_STEP_TASKS_PER_NODE \('2'\) .* one of 2 tasks.*without --preserve-env/,
  ],
  [
    'a task of srun --preserve-env with fewer tasks than the job',
    { ...SLURM_PRESERVED, SLURM_NTASKS: '4', SLURM_TASKS_PER_NODE: '4' },
    /without --preserve-env/,
  ],
  [
    'Open MPI in a pod that does not know how many there are',
    { ...OPEN_MPI, JOB_COMPLETION_INDEX: '0' },
    /^Both Open MPI and Kubernetes .*WORLD_SIZE is not set.* 'env -u JOB_COMPLETION_INDEX'/,
  ],
  ['a pod that does not know how many there are', { JOB_COMPLETION_INDEX: '1' }, /WORLD_SIZE is not set. Add it/],
  ['a pod of a JobSet past those of its Job', { ...JOB_SET, JOB_COMPLETION_INDEX: '3' }, /from 0 to 2\.$/],
  [
    'a pod of a JobSet of which nobody says how many Jobs it has',
    { WORLD_SIZE: '4', MASTER_ADDR: 'a', JOB_COMPLETION_INDEX: '1', GRADRING_JOB_INDEX: '1' },
    /GRADRING_JOB_COUNT is not set/,
  ],
  ['a pod of no Job', { ...JOB_SET, JOB_COMPLETION_INDEX: '0' }, /GRADRING_JOB_INDEX is not set/],
  [
    'a JobSet whose WORLD_SIZE is that of one Job',
    { ...JOB_SET, WORLD_SIZE: '3', JOB_COMPLETION_INDEX: '0', GRADRING_JOB_INDEX: '1' },
    /WORLD_SIZE is 3, but GRADRING_JOB_COUNT is 2/,
  ],
  [
    'a pod without a headless service',
    { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2' },
    /the pod template needs `subdomain`/,
  ],
  ['a TrainJob without a number of nodes', { ...KUBEFLOW, PET_NNODES: '' }, /^PET_NNODES is not set; it must be/],
  ['a TrainJob without a node', { PET_NNODES: '2', PET_MASTER_ADDR: 'a' }, /^PET_NODE_RANK is not set; .* 0 to 1\.$/],
  ['an elastic torchrun', { ...KUBEFLOW, PET_NNODES: '1:2' }, /^PET_NNODES is '1:2'; it must be a whole number/],
  ['a node past those of a TrainJob', { ...KUBEFLOW, PET_NODE_RANK: '2' }, /^PET_NODE_RANK is '2'; .* from 0 to 1\.$/],
  ['a TrainJob without a port', { ...KUBEFLOW, PET_MASTER_PORT: 'x' }, /^PET_MASTER_PORT is 'x'; .* 1 to 65535\.$/],
  ['a TrainJob without a master', { ...KUBEFLOW, PET_MASTER_ADDR: '' }, /^PET_NNODES says .* Set PET_MASTER_ADDR, or/],
  ['a TrainJob with another world size', { ...KUBEFLOW, WORLD_SIZE: '4' }, /4, but Kubeflow Trainer has started 2/],
  [
    'MPICH in each of two pods of a TrainJob',
    { ...HYDRA_ALONE, ...KUBEFLOW },
    /but by Kubeflow Trainer it is 1 of 2.* 'env -u PET_NNODES -u PET_NODE_RANK' before the program/,
  ],
  ['one of two copies of pm2', PM2, /^pm2 runs several copies .* a ring of its own\. Let pm2 run one: .*gradring run/],
  [
    'a copy that was added by pm2 scale',
    { ...PM2, instances: '1', NODE_APP_INSTANCE: '1' },
    /NODE_APP_INSTANCE is 1\)/,
  ],
  [
    'pm2 in each of two tasks of a host',
    { ...PM2, ...OPEN_MPI },
    /^Both Open MPI and pm2 .* To ignore pm2, put 'env -u pm_id' before the program/,
  ],
  ['another world size', { ...SLURM, WORLD_SIZE: '4' }, /WORLD_SIZE is 4, but Slurm has started 3/],
  [
    'a master that each host reaches otherwise',
    { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '[fe80::1%eth0]' },
    /one link only/,
  ],
  ['a world size alone', { WORLD_SIZE: '4' }, /WORLD_SIZE is set but RANK is not/],
])('%s is an error, never a ring of one', (_, env, message) => {
  expect(() => readRankEnvironment(env)).toThrow(message);
});

test('the only process of pm2 is alone, and so is one of several that says so', () => {
  for (const env of [ALONE_IN_PM2, { ...PM2, RANK: '0', WORLD_SIZE: '1' }]) {
    expect(readRankEnvironment(env)).toMatchObject({ rank: 0, worldSize: 1 });
  }
});

test('each worker of a node:cluster is told that it would be alone, unless it says so', () => {
  const program = path.join(__dirname, 'cluster.js');
  const { stdout } = spawnSync(process.execPath, [program], { encoding: 'utf8', env: { PATH: '' } });
  expect(stdout.trim().split('\n').sort()).toEqual([
    expect.stringMatching(/^ERR_INVALID_ENVIRONMENT This process is worker 1 of a node:cluster, .* launch\(\) in/),
    expect.stringMatching(/^ERR_INVALID_ENVIRONMENT This process is worker 2 of a node:cluster/),
    'rank 0 of 1',
  ]);
});

test('RANK and WORLD_SIZE may say that a process is alone, but not unnoticed if a scheduler started several', () => {
  const alone = { RANK: '0', WORLD_SIZE: '1' };
  const overruled = (env: NodeJS.ProcessEnv) => readRankEnvironment({ ...alone, ...env }).overruled;
  expect(overruled(SLURM)).toBe('Slurm');
  expect(overruled(KUBEFLOW)).toBe('Kubeflow Trainer');
  expect(overruled({ ...OPEN_MPI, OMPI_COMM_WORLD_LOCAL_SIZE: '1' })).toBe('Open MPI');
  for (const env of [{}, SLURM_BATCH, ALONE_IN_SLURM, { PMIX_RANK: '1' }]) expect(overruled(env)).toBeUndefined();
  expect(readRankEnvironment({ ...SLURM, RANK: '0', WORLD_SIZE: '4' }).overruled).toBeUndefined();
});

test('ranks of torchrun meet at a port that its agent does not hold, another after each restart', () => {
  const meeting = (env: NodeJS.ProcessEnv) => readRankEnvironment({ ...TORCHRUN, ...env });
  const first = meeting({});
  expect(first).toMatchObject({ rank: 1, worldSize: 2, masterAddr: 'localhost' });
  expect(meeting({ RANK: '0', LOCAL_RANK: '0' })).toMatchObject({ masterPort: first.masterPort, runId: first.runId });
  const others = [
    ...[
      { TORCHELASTIC_RESTART_COUNT: '1' },
      { TORCHELASTIC_RUN_ID: 'b' },
      { MASTER_PORT: '36184' },
      { MASTER_ADDR: 'a' },
    ],
    { TORCHELASTIC_USE_AGENT_STORE: 'False' },
  ].map(meeting);
  expect(new Set([first, ...others].map(({ masterPort }) => masterPort)).size).toBe(6);
  expect(others.at(-1)).toMatchObject({ masterPort: 36_183, runId: '' });
});

testWhere(needs.linux)('runs of Hydra are told apart by their proxy, also through a shell', () => {
  const library = JSON.stringify(path.join(__dirname, '../../dist/environment/rank-environment.js'));
  const program = `const place = require(${library}).readRankEnvironment(); console.log(place.runId, place.masterPort)`;
  const meetingOf = (words: string, localSize: string) => {
    const proxy = `exec -a /usr/bin/hydra_pmi_proxy bash -c 'sh -c "$PROGRAM; true"; true' hydra_pmi_proxy ${words}`;
    const env = { ...process.env, ...HYDRA, MPI_LOCALNRANKS: localSize, MASTER_ADDR: 'a' };
    const options = { encoding: 'utf8', env: { ...env, PROGRAM: `'${process.execPath}' -e '${program}'` } } as const;
    const { stdout, stderr } = spawnSync('bash', ['-c', proxy], options);
    const [runId, port] = stdout.trim().split(' ');
    return { runId, port: Number(port), stderr };
  };
  const mpich = [meetingOf('--control-port a:1', '2'), meetingOf('--control-port a:2', '1')];
  expect(mpich).toMatchObject([{ runId: 'a:1' }, { runId: 'a:2' }]);
  expect(mpich[0]!.port).not.toBe(mpich[1]!.port);
  const intel = [1, 2].map(() => meetingOf('--usize -1', '2')); // it names no port
  for (const { runId } of intel) expect(runId).toMatch(/^\d+$/);
  expect(intel[0]!.runId).not.toBe(intel[1]!.runId);
  expect(meetingOf('--usize -1', '1').stderr).toMatch(/does not say what distinguishes them/); // on several hosts
});

test.each([
  ['n1', 'n1'],
  ['n[1-2]', 'n1'],
  ['n[01-03,7],gpu5', 'n01'],
  ['login,n[1-2]', 'login'],
  ['rack[1-2]n[4,6-9]', 'rack1n4'],
  ['n[7,1-3]', 'n7'],
  ['a-b[10-12].cluster.org', 'a-b10.cluster.org'],
])('the first host of %s is %s', (list, host) => {
  expect(firstHost(list)).toBe(host);
});

test.each([
  [
    'train-3',
    '3',
    '10.1.0.7\ttrain-3.ring.default.svc.cluster.local\ttrain-3',
    'train-0.ring.default.svc.cluster.local',
  ],
  ['set-workers-0-11', '11', '10.1.0.7 set-workers-0-11.set.ml.svc.x set-workers-0-11', 'set-workers-0-0.set.ml.svc.x'],
  ['set-workers-1-2', '1-2', '10.1.0.7 set-workers-1-2.set.ml.svc.x set-workers-1-2', 'set-workers-0-0.set.ml.svc.x'],
  ['train-3', '3', '10.1.0.7 train-3', undefined], // no subdomain
  ['laptop', '3', '10.1.0.7 laptop.home laptop', undefined],
])('the first pod beside %s, which is pod %s', (own, number, hosts, first) => {
  expect(firstPod(own, number, `127.0.0.1\tlocalhost\n${hosts}\n`)).toBe(first);
});

test.each(['run\x1b[31m', 'a\nb', '\u202eid', 'x'.repeat(513)])(
  'the id of a run is a name that can be shown: not %j',
  id => {
    const message = expect.stringMatching(/^The id of this run, '[^\x1b\n\u202e]{1,60}', must be printable/) as string;
    const failure = expect.objectContaining({ code: 'ERR_INVALID_ENVIRONMENT', message }) as Error;
    expect(() => readRankEnvironment({ GRADRING_RUN_ID: id })).toThrow(failure);
  },
);

test('an error quotes a variable as it can be shown', () => {
  expect(() => readRankEnvironment({ RANK: '\x1b]0;x\x07', WORLD_SIZE: '2' })).toThrow("RANK is '\\u{1b}]0;x\\u{7}'");
});

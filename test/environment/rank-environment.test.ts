import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { firstPod } from '../../src/environment/kubernetes';
import { readRankEnvironment } from '../../src/environment/rank-environment';
import { firstHost } from '../../src/environment/slurm';
import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { secretFile, tokenOfRun } from '../../src/rendezvous/user-secret';

/** What `srun -N2 -n3` set for the last task (Slurm 22.05). */
const SLURM = {
  ...{ SLURM_JOB_ID: '1', SLURM_STEP_ID: '0', SLURM_NTASKS: '3', SLURM_STEP_NUM_TASKS: '3' },
  ...{ SLURM_PROCID: '2', SLURM_LOCALID: '0', SLURM_STEP_NUM_NODES: '2', SLURM_STEP_NODELIST: 'n[1-2]' },
  ...{ SLURMD_NODENAME: 'n2', SLURM_LAUNCH_NODE_IPADDR: '10.0.0.9', SLURM_JOB_NODELIST: 'n[1-2]' },
};
/** What Slurm set for the script of `sbatch -N2 -n4`. */
const SLURM_BATCH = { SLURM_JOB_ID: '1', SLURM_PROCID: '0', SLURM_LOCALID: '0', SLURM_NTASKS: '4' };
/** What `mpirun -n 2` set for the second process (Open MPI 4.1). */
const OPEN_MPI = {
  ...{ OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2' },
  ...{ OMPI_COMM_WORLD_LOCAL_RANK: '1', OMPI_COMM_WORLD_LOCAL_SIZE: '2' },
  ...{ PMIX_RANK: '1', PMIX_NAMESPACE: '475529217' },
};
/** What `mpiexec -n 2` set for the second process (MPICH 4.0). */
const HYDRA = { PMI_RANK: '1', PMI_SIZE: '2', MPI_LOCALRANKID: '1', MPI_LOCALNRANKS: '2' };

test.each([
  ['Slurm', SLURM, { rank: 2, worldSize: 3, localRank: 0, masterAddr: 'n1', runId: 'slurm-1.0' }],
  ['Slurm', { ...SLURM, SLURM_STEP_NUM_NODES: '1' }, { rank: 2, worldSize: 3, masterAddr: '127.0.0.1' }],
  ['Slurm', { ...SLURM, PMI_RANK: '2', PMI_SIZE: '3', PMIX_RANK: '2' }, { rank: 2, worldSize: 3, masterAddr: 'n1' }],
  ['Open MPI', OPEN_MPI, { rank: 1, worldSize: 2, localRank: 1, masterAddr: '127.0.0.1', runId: 'mpi-475529217' }],
  ['Open MPI', { ...SLURM, ...OPEN_MPI }, { rank: 1, worldSize: 2 }],
  ['MPI (PMI)', HYDRA, { rank: 1, worldSize: 2, localRank: 1, masterAddr: '127.0.0.1', masterPort: 29500, runId: '' }],
  ['MPI (PMI)', { ...SLURM, ...HYDRA }, { rank: 1, worldSize: 2 }],
  ['MPI (PMI)', { PMI_RANK: '3', PMI_SIZE: '4', MASTER_ADDR: 'a' }, { rank: 3, worldSize: 4, masterAddr: 'a' }],
  ['Kubernetes', { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2', MASTER_ADDR: 'a' }, { rank: 1, worldSize: 2 }],
  ['Kubernetes', { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '1' }, { rank: 0, worldSize: 1 }],
  ['Slurm', { ...SLURM, WORLD_SIZE: '3' }, { rank: 2, worldSize: 3 }],
  ['Slurm', { ...SLURM, MASTER_ADDR: 'm', MASTER_PORT: '7' }, { rank: 2, masterAddr: 'm', masterPort: 7 }],
  ['Slurm', { ...SLURM, SLURM_PROCID: '0', MASTER_ADDR: 'n2' }, { rank: 0, masterAddr: 'n2' }],
  [undefined, { ...SLURM, ...OPEN_MPI, RANK: '0', WORLD_SIZE: '4' }, { rank: 0, worldSize: 4, masterPort: 29500 }],
  [undefined, { ...SLURM_BATCH, RANK: '0', WORLD_SIZE: '1' }, { rank: 0, worldSize: 1 }],
  [undefined, { ...SLURM_BATCH, SLURM_NTASKS: '1' }, { rank: 0, worldSize: 1 }],
])('the place that %s gives (%#)', (scheduler, env, place) => {
  expect(readRankEnvironment(env)).toMatchObject({ ...place, scheduler });
});

test('steps of one job meet at different ports, which no system gives to clients', () => {
  const ports = ['0', '1', '2'].map(SLURM_STEP_ID => readRankEnvironment({ ...SLURM, SLURM_STEP_ID }).masterPort);
  expect(new Set(ports).size).toBe(3);
  for (const port of ports) expect(port).toBeLessThan(30_000);
});

test.each([
  ['the script of a batch job with several tasks', SLURM_BATCH, /job of Slurm has 4 tasks, but this process is none/],
  ['a shell of salloc', { SLURM_JOB_ID: '1', SLURM_NTASKS: '2' }, /Start it with srun/],
  ['a first task that is not on the first node', { ...SLURM, SLURM_PROCID: '0' }, /export MASTER_ADDR=n2 before srun/],
  ['a task of Slurm without a rank', { ...SLURM, SLURM_PROCID: 'x' }, /SLURM_PROCID is 'x'; it must be .* from 0 to 2/],
  ['Open MPI on several hosts', { ...OPEN_MPI, OMPI_COMM_WORLD_LOCAL_SIZE: '1' }, /mpirun -x MASTER_ADDR=/],
  ['Open MPI without a size', { ...OPEN_MPI, OMPI_COMM_WORLD_SIZE: '' }, /OMPI_COMM_WORLD_SIZE is not set/],
  ['MPICH on several hosts', { ...HYDRA, MPI_LOCALNRANKS: '1' }, /mpiexec -genv MASTER_ADDR /],
  ['PMIx alone', { PMIX_RANK: '1' }, /no variable says how many there are/],
  ['a pod that does not know how many there are', { JOB_COMPLETION_INDEX: '1' }, /WORLD_SIZE is not set. Add it/],
  ['a pod without a headless service', { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2' }, /name: MASTER_ADDR/],
  ['another world size', { ...SLURM, WORLD_SIZE: '4' }, /WORLD_SIZE is 4, but Slurm has started 3/],
  ['a world size alone', { WORLD_SIZE: '4' }, /WORLD_SIZE is set but RANK is not/],
])('%s is an error, never a ring of one', (_, env, message) => {
  expect(() => readRankEnvironment(env)).toThrow(message);
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
  ['train-3', 3, '10.1.0.7\ttrain-3.ring.default.svc.cluster.local\ttrain-3', 'train-0.ring.default.svc.cluster.local'],
  ['set-workers-0-11', 11, '10.1.0.7 set-workers-0-11.set.ml.svc.x set-workers-0-11', 'set-workers-0-0.set.ml.svc.x'],
  ['train-3', 3, '10.1.0.7 train-3', undefined], // no subdomain
  ['laptop', 3, '10.1.0.7 laptop.home laptop', undefined],
])('the first pod beside %s, which is pod %i', (own, index, hosts, first) => {
  expect(firstPod(own, index, `127.0.0.1\tlocalhost\n${hosts}\n`)).toBe(first);
});

describe('the run token of ranks that a scheduler started on several hosts', () => {
  let home: string;
  const env = () => ({ ...SLURM, HOME: home });
  beforeEach(() => (home = mkdtempSync(path.join(tmpdir(), 'gradring-home-'))));
  afterEach(() => rmSync(home, { recursive: true }));

  test('is the same for all of them, another in each run, and made from a file that only the user can read', () => {
    const token = resolveConnectOptions({}, env()).runToken;
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(resolveConnectOptions({}, { ...env(), SLURM_PROCID: '1' }).runToken).toBe(token);
    expect(resolveConnectOptions({}, { ...env(), SLURM_STEP_ID: '1' }).runToken).not.toBe(token);
    const file = path.join(home, '.config/gradring/secret');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(token).not.toBe(readFileSync(file, 'utf8').trim());
  });

  test('is not made if it is given, or if the ranks share a host', () => {
    const given = '0123456789abcdef'.repeat(4);
    expect(resolveConnectOptions({}, { ...env(), GRADRING_RUN_TOKEN: given }).runToken).toBe(given);
    expect(resolveConnectOptions({}, { ...env(), SLURM_STEP_NUM_NODES: '1' }).runToken).toBeUndefined();
    expect(() => statSync(secretFile(env()))).toThrow(/ENOENT/);
  });

  test.each([
    ['others may read the secret', 'ab'.repeat(32), 0o640, /others may read it: chmod 600/],
    ['the secret is damaged', 'abc', 0o600, /does not hold 64 hexadecimal digits/],
  ])('if %s, an error says so', (_, secret, mode, message) => {
    tokenOfRun('run', env());
    rmSync(secretFile(env()));
    writeFileSync(secretFile(env()), secret, { mode });
    expect(() => resolveConnectOptions({}, env())).toThrow(message);
    expect(() => resolveConnectOptions({}, env())).toThrow(/Or set GRADRING_RUN_TOKEN/);
  });

  test('if there is no home, an error says so', () => {
    const HOME = path.join(home, 'file');
    writeFileSync(HOME, '');
    expect(() => resolveConnectOptions({}, { ...env(), HOME })).toThrow(/they need a run token.*ENOTDIR/);
  });
});

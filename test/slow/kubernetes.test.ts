import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import { NetSpaces } from './support/net-spaces';
import { describeWith } from './support/programs';

const ROOT = path.join(__dirname, '../..');

interface JobSpec {
  readonly completions: number;
  readonly template: { readonly spec: { readonly subdomain: string; readonly containers: readonly Container[] } };
}

interface JobPolicy {
  readonly podFailurePolicy: { readonly rules: readonly { readonly onExitCodes: { readonly values: number[] } }[] };
}

interface Container {
  readonly command: readonly string[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly startupProbe: { readonly exec: { readonly command: readonly string[] } };
  readonly livenessProbe: { readonly exec: { readonly command: readonly string[] } };
}

interface TrainingRuntime {
  readonly spec: { readonly template: { readonly spec: { readonly replicatedJobs: readonly ReplicatedJob[] } } };
}

interface ReplicatedJob {
  readonly name: string;
  readonly template: { readonly spec: JobSpec };
}

interface TrainJob {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly trainer: { readonly numNodes: number; readonly numProcPerNode: number } };
}

const documentsIn = (file: string) =>
  parseAllDocuments(readFileSync(path.join(ROOT, 'docs/kubernetes', file), 'utf8')).map(
    document => document.toJS() as unknown,
  );

const job = documentsIn('job.yaml')[1] as { metadata: { name: string }; spec: JobSpec & JobPolicy };
const { completions, podFailurePolicy, template } = job.spec;
const container = template.spec.containers[0]!;
const [ignoredCodes] = podFailurePolicy.rules.map(({ onExitCodes }) => onExitCodes.values);

const trainJob = documentsIn('trainjob.yaml')[0] as TrainJob;
const [node] = (documentsIn('training-runtime.yaml')[0] as TrainingRuntime).spec.template.spec.replicatedJobs;

/** What a pod sees of itself: its own network, names, process numbers and host name; the command is process 1. */
const POD = 'hostname "$1"; mount --bind "$2" /etc/hosts; cd "$3"; shift 3; exec "$@"';

describeWith(['ip', 'unshare'], 'the Job of docs/kubernetes', () => {
  let project: string;
  let spaces: NetSpaces;
  let addresses: string[];
  const pods: Pod[] = [];

  interface Pod {
    readonly child: ChildProcess;
    readonly hosts: string;
    readonly said: { output: string };
    readonly ended: Promise<number | null>;
    hasEnded: boolean;
  }

  beforeAll(() => {
    project = mkdtempSync(path.join(tmpdir(), 'gradring-pods-'));
    mkdirSync(path.join(project, 'node_modules/.bin'), { recursive: true });
    symlinkSync(ROOT, path.join(project, 'node_modules/gradring'), 'dir');
    symlinkSync(path.join(ROOT, 'dist/cli.js'), path.join(project, 'node_modules/.bin/gradring'));
    copyFileSync(path.join(ROOT, 'docs/kubernetes/train.js'), path.join(project, 'train.js'));
    spaces = new NetSpaces('10.211.8');
    addresses = Array.from({ length: completions }, (_, i) => spaces.add(`p${i}`));
  });
  afterEach(() => pods.splice(0).forEach(({ child }) => child.kill('SIGKILL')));
  afterAll(() => {
    spaces.remove();
    rmSync(project, { recursive: true });
    rmSync('/tmp/alive', { force: true });
  });

  /** What a controller gives a pod: its name, that of its service, and variables. */
  interface Identity {
    readonly name: string;
    readonly service: string;
    readonly container: Container;
    readonly env: Readonly<Record<string, string>>;
  }

  const ofJob = (index: number): Identity => {
    const env = { JOB_COMPLETION_INDEX: String(index) };
    return { name: `${job.metadata.name}-${index}`, service: template.spec.subdomain, container, env };
  };

  /** As docs/kubernetes/jobset.yaml: two Jobs of two pods, whose labels its variables hold. */
  const ofJobSet = (index: number): Identity => {
    const [inJob, jobIndex] = [index % 2, Math.floor(index / 2)].map(String) as [string, string];
    const env = { JOB_COMPLETION_INDEX: inJob, GRADRING_JOB_INDEX: jobIndex, GRADRING_JOB_COUNT: '2' };
    return { name: `train-ring-${jobIndex}-${inJob}`, service: 'train', container, env };
  };

  /** As Kubeflow Trainer 2.3 makes pods of docs/kubernetes/trainjob.yaml and its runtime: plugins/torch/torch.go. */
  const ofTrainJob = (index: number): Identity => {
    const { name: service } = trainJob.metadata;
    const { numNodes, numProcPerNode } = trainJob.spec.trainer;
    const job = `${service}-${node!.name}-0`;
    const env = {
      ...{ PET_NNODES: String(numNodes), PET_NPROC_PER_NODE: String(numProcPerNode), PET_NODE_RANK: String(index) },
      ...{ PET_MASTER_ADDR: `${job}-0.${service}`, PET_MASTER_PORT: '29500', JOB_COMPLETION_INDEX: String(index) },
    };
    const [container] = node!.template.spec.template.spec.containers;
    return { name: `${job}-${index}`, service, container: container!, env };
  };

  const fullName = ({ name, service }: Identity) => `${name}.${service}.default.svc.cluster.local`;

  /** Starts all pods as the Job says. The names of the others come when all have begun. */
  async function start(env: Readonly<Record<string, string>>, identityOf = ofJob, length = completions): Promise<void> {
    const identities = Array.from({ length }, (_, index) => identityOf(index));
    for (const [index, identity] of identities.entries()) pods.push(startPod(index, identity, env));
    await until(() => allSaid(/rank \d of \d, by Kube/));
    const namesOf = (identity: Identity) => `${fullName(identity)} ${identity.name}.${identity.service}`;
    const names = identities.map((identity, index) => `${addresses[index]} ${namesOf(identity)}\n`).join('');
    for (const { hosts } of pods) appendFileSync(hosts, names);
  }

  const outputs = () => pods.map(({ said }) => said.output).join('');
  const allSaid = (what: RegExp) => pods.every(({ said }) => what.test(said.output));

  /** Waits for something that running pods do. */
  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      const ended = pods.findIndex(({ hasEnded }) => hasEnded);
      if (ended >= 0) throw new Error(`Pod ${ended} ended:\n${pods[ended]!.said.output}`);
      await sleep(50);
    }
  }

  function startPod(index: number, identity: Identity, more: Readonly<Record<string, string>>): Pod {
    const hosts = path.join(project, `hosts-${index}`);
    const { name: own, container } = identity;
    writeFileSync(hosts, `127.0.0.1 localhost\n${addresses[index]} ${fullName(identity)} ${own}\n`);
    const given = Object.fromEntries(container.env.map(({ name, value }) => [name, value ?? 'ab'.repeat(32)]));
    const env = { PATH: process.env['PATH'], ...given, ...more, ...identity.env };
    const isolated = ['unshare', '--mount', '--uts', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const inside = ['sh', '-c', POD, 'pod', own, hosts, project, ...container.command];
    const child = spawn('ip', [...spaces.within(`p${index}`), ...isolated, ...inside], { env });
    const said = { output: '' };
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes: Buffer) => (said.output += String(bytes)));
    }
    const pod: Pod = {
      child,
      hosts,
      said,
      hasEnded: false,
      ended: new Promise(resolve => child.once('close', resolve)),
    };
    void pod.ended.then(() => (pod.hasEnded = true));
    return pod;
  }

  /** Whether a probe of the manifest succeeds. */
  const isAlive = (probe: { readonly exec: { readonly command: readonly string[] } }) => {
    const [command, ...args] = probe.exec.command;
    try {
      execFileSync(command!, args, { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  };

  /**
   * The volume is a folder of the project, as all pods see it. The timeouts are shorter than the time limit of a test,
   * so a failed test shows the output of the pods.
   */
  const settings = {
    ...{ GRADRING_BACKEND: 'cpu', NODE_DEBUG: 'gradring', CHECKPOINTS: 'checkpoints' },
    ...{ GRADRING_CONNECT_TIMEOUT_MS: '60000', GRADRING_TIMEOUT_MS: '30000' },
  };
  const checkpoints = () => path.join(project, 'checkpoints');
  const hasCheckpoint = () =>
    existsSync(checkpoints()) &&
    readdirSync(checkpoints()).some(name => existsSync(path.join(checkpoints(), name, 'manifest.json')));
  beforeEach(() => rmSync(checkpoints(), { recursive: true, force: true }));
  const began = /: begins at epoch (\d+), step (\d+)$/m;

  test.each([
    ['its pods', ofJob, completions],
    ['the pods of the JobSet, whose Jobs have the same indices,', ofJobSet, completions],
    ['the pods of the TrainJob, with two ranks each,', ofTrainJob, trainJob.spec.trainer.numNodes],
  ])(
    '%s are one ring, though their names come late, and its probes succeed',
    async (_, identityOf, count) => {
      rmSync('/tmp/alive', { force: true });
      expect([container.startupProbe, container.livenessProbe].map(isAlive)).toEqual([false, false]);
      await start({ ...settings, EPOCHS: '2' }, identityOf, count);
      const codes = await Promise.all(pods.map(({ ended }) => ended));
      const all = outputs();
      const losses = [...all.matchAll(/rank (\d) of 4: loss ([\d.]+)$/gm)];
      expect({ codes, all, ranks: losses.map(([, rank]) => rank).sort() }).toEqual({
        ...{ codes: Array(count).fill(0), all },
        ranks: ['0', '1', '2', '3'],
      });
      expect([container.startupProbe, container.livenessProbe].map(isAlive)).toEqual([true, true]);
    },
    120_000,
  );

  test('if a pod gets SIGTERM, all save after the same step, end with 75, and resume there', async () => {
    rmSync('/tmp/alive', { force: true });
    await start({ ...settings, EPOCHS: '100000' });
    await until(() => isAlive(container.startupProbe) && hasCheckpoint());
    const first = execFileSync('pgrep', ['-P', String(pods[2]!.child.pid)], { encoding: 'utf8' }).trim();
    process.kill(Number(first), 'SIGTERM');
    const codes = await Promise.all(pods.map(({ ended }) => ended));
    expect({ codes, all: outputs() }).toEqual({ codes: [75, 75, 75, 75], all: outputs() });
    expect(ignoredCodes).toEqual([75]);
    const [, step] = /All ranks have saved at step (\d+) /.exec(outputs())!;
    expect(readdirSync(checkpoints()).filter(name => name.endsWith(`-step-${step}`))).toHaveLength(1);
    expect(pods.map(({ said }) => began.exec(said.output)?.[1])).toEqual(['0', '0', '0', '0']);
    pods.splice(0);
    await start({ ...settings, EPOCHS: '100000' }); // as the Job does
    await until(() => allSaid(began));
    expect(Number(step)).toBeGreaterThan(0);
    expect(pods.map(({ said }) => began.exec(said.output)![2])).toEqual(Array(4).fill(step));
  }, 120_000);
});

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { KUBEFLOW, SLURM } from '../environment/schedulers';
import { commandsIn } from '../support/doc-pages';
import { describeWith, whereIs } from './support/programs';
import { SshHosts } from './support/ssh-hosts';
import { whoProgram } from './support/who';

const ROOT = path.join(__dirname, '../..');

/** `ray symmetric-run` of Ray 2.58, as far as the recipe depends on it: the command runs on the head node only. */
const RAY = `#!/bin/bash
[ "\${*:1:6}" = "symmetric-run --address a:6379 --min-nodes 2 --" ] || { echo "ray was given $*" >&2; exit 2; }
[ "$(hostname)" = a ] || exit 0
exec "\${@:7}"
`;

/** The module of Python: a node that has left is among the nodes. */
const RAY_MODULE = `
import os

def init(**options):
    pass

def nodes():
    gone = [{'Alive': False, 'NodeManagerAddress': '10.211.7.99'}]
    return gone + [{'Alive': True, 'NodeManagerAddress': each} for each in os.environ['RAY_NODES'].split()]
`;

/** What Slurm sets where `srun` starts Ray on two nodes. */
const TASKS = {
  ...SLURM,
  SLURM_STEP_NUM_TASKS: '2',
  SLURM_STEP_TASKS_PER_NODE: '1(x2)',
  SLURM_TASKS_PER_NODE: '1(x2)',
};

const ONE_RING_OF_4 = [0, 1, 2, 3].map(rank => `rank ${rank} of 4, sum 6`);

// No SkyPilot, Ray or Kubeflow is here: the variables are those that they set, by their documentation and source.
describeWith(
  ['ip', 'sshd', 'ssh', 'ssh-keygen', 'unshare', 'python3'],
  'the recipes for engines, on two hosts under their variables,',
  () => {
    let project: string;
    let hosts: SshHosts;

    beforeAll(async () => {
      hosts = await new SshHosts().start({ a: [], b: [] });
      project = mkdtempSync(path.join(tmpdir(), 'gradring-engines-'));
      for (const folder of ['node_modules/.bin', 'bin']) mkdirSync(path.join(project, folder), { recursive: true });
      symlinkSync(ROOT, path.join(project, 'node_modules/gradring'), 'dir');
      symlinkSync(path.join(ROOT, 'dist/cli.js'), path.join(project, 'node_modules/.bin/gradring'));
      writeFileSync(path.join(project, 'train.js'), whoProgram('gradring/core', 1));
      const ssh = `#!/bin/sh\nexec ${whereIs('ssh')} ${hosts.sshArgs} "$@"\n`;
      for (const [name, text] of [['ssh', ssh] as const, ['ray', RAY] as const]) {
        writeFileSync(path.join(project, 'bin', name), text, { mode: 0o755 });
      }
      writeFileSync(path.join(project, 'bin/ray.py'), RAY_MODULE);
    }, 60_000);
    afterAll(() => {
      hosts.stop();
      rmSync(project, { recursive: true });
    });

    const run = (host: string, more: NodeJS.ProcessEnv): Promise<{ code: number | null; output: string }> =>
      new Promise(resolve => {
        const bin = path.join(project, 'bin');
        const PATH = `${bin}:${process.env['PATH']}`;
        const options = { cwd: project, env: { ...process.env, PYTHONPATH: bin, ...more, PATH } };
        const child = spawn(...hosts.on(host, 'exec timeout --kill-after=5 60 bash command.sh'), options);
        let output = '';
        for (const stream of [child.stdout!, child.stderr!]) stream.on('data', bytes => (output += String(bytes)));
        child.once('close', code => resolve({ code, output }));
      });

    /** Runs a command on both hosts at once, as an engine does. */
    async function onBoth(command: string, variablesOf: (node: number) => NodeJS.ProcessEnv) {
      writeFileSync(path.join(project, 'command.sh'), command);
      const ends = await Promise.all(['a', 'b'].map((host, node) => run(host, variablesOf(node))));
      return { codes: ends.map(({ code }) => code), output: ends.map(({ output }) => output).join('') };
    }

    const ranksIn = (output: string) => (output.match(/rank \d+ of \d+, sum \d+/g) ?? []).sort();
    const GRADRING_RUN_TOKEN = 'ab'.repeat(32);

    const ofSkyPilot = (node: number) => ({
      ...{ GRADRING_RUN_TOKEN, SKYPILOT_NUM_NODES: '2', SKYPILOT_NODE_RANK: String(node) },
      SKYPILOT_NODE_IPS: Object.values(hosts.addresses).join('\n'),
      SKYPILOT_NUM_GPUS_PER_NODE: '2',
    });

    const recipes: [string, (node: number) => NodeJS.ProcessEnv][] = [
      [
        'Kubeflow Trainer',
        node => ({ ...KUBEFLOW, PET_MASTER_ADDR: 'a', PET_NODE_RANK: String(node), GRADRING_RUN_TOKEN }),
      ],
      ['SkyPilot', ofSkyPilot],
    ];

    test.each(recipes)(
      '%s: one ring',
      async (heading, variablesOf) => {
        const [command] = commandsIn('docs/clusters.md', heading);
        const { codes, output } = await onBoth(command!, variablesOf);
        expect({ output, ranks: ranksIn(output), codes }).toEqual({ output, ranks: ONE_RING_OF_4, codes: [0, 0] });
      },
      120_000,
    );

    test.each([
      ['without GPUs', { SKYPILOT_NUM_GPUS_PER_NODE: '0' }, /ERR_INVALID_ARGUMENT: --ranks \(-n\) is '0'; it must be/],
      ['with a wrong number of the node', { SKYPILOT_NODE_RANK: '2' }, /ERR_INVALID_ARGUMENT: --node-rank is '2'; /],
      ['without a number of nodes', { SKYPILOT_NUM_NODES: '' }, /ERR_INVALID_ARGUMENT: --nodes /],
    ])('SkyPilot %s: an error in words', async (_, wrong, message) => {
      const [command] = commandsIn('docs/clusters.md', 'SkyPilot');
      const { codes, output } = await onBoth(command!, node => ({ ...ofSkyPilot(node), ...wrong }));
      expect(output).toMatch(message);
      expect(codes).toEqual([2, 2]);
    });

    test('Ray: its command starts one ring from the head node, also in a job of Slurm', async () => {
      const [ranks, command] = commandsIn('docs/clusters.md', 'Ray');
      writeFileSync(path.join(project, 'ranks.sh'), ranks!);
      const RAY_NODES = Object.values(hosts.addresses).reverse().join(' ');
      const { codes, output } = await onBoth(command!, node => ({
        ...{ ...TASKS, SLURM_PROCID: String(node), SLURM_GTIDS: String(node), RAY_HEAD: 'a', RAY_NODES },
        SLURMD_NODENAME: `n${node + 1}`,
      }));
      expect({ output, ranks: ranksIn(output), codes }).toEqual({ output, ranks: ONE_RING_OF_4, codes: [0, 0] });
    }, 120_000);
  },
);

import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Finding } from '../../src/doctor/finding';
import { testWhere } from '../support/test-where';
import {
  copyProject,
  coresIn,
  fetchNode,
  install,
  makeProject,
  nodeRanges,
  otherNodes,
  pack,
  projectWithPackage,
  registryObstacle,
} from './support/installed';

// The whole suite runs on one Node. Here is what shows that the others work, on the newest version of each line, and on
// the oldest that `engines` allows where that is not the first of its line. The oldest and the newest of all install
// the package; the others have a copy of what the oldest has installed. link-tensorflow.test.ts trains on them with
// tfjs-node.

const NEWEST = otherNodes().at(-1)!;
const OLDEST = nodeRanges().flatMap(range => /(?!\d+\.0$)\b\d+\.\d+$/.exec(range) ?? []);

let folder: string;
let archive: string;
/** Where the oldest Node has installed the package. */
let installed: string | undefined;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-nodes-'));
  ({ archive } = await pack(folder));
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TRAINING = `
  import { connect, dgc, loadBackend } from 'gradring';
  const { tf } = await loadBackend();
  const ring = await connect();
  const w = tf.variable(tf.zeros([2000]), true, 'w');
  const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ sparsity: 0.5, warmUpSteps: 2 }) });
  for (let step = 0; step < 5; step++) optimizer.minimize(() => w.sub(ring.rank).square().mean(), false, [w]);
  console.log(process.version, ring.rank, 'of', ring.worldSize, await ring.verifyReplicas([w]));
  await ring.close();`;

const testInstalled = testWhere(registryObstacle());

testInstalled(
  'Node 18, which Debian 12 ships, is refused at once, by the command and in a program',
  async () => {
    const env = await fetchNode(folder, '18');
    const project = await projectWithPackage(folder, 'project 18');
    const started = { cwd: project, encoding: 'utf8', env: { ...env, RANK: '1', WORLD_SIZE: '2' } } as const;
    const connect = `import { connect } from 'gradring'; await connect().catch(error => console.error(error.code, error.message));`;
    for (const [command, ...args] of [
      ['node_modules/.bin/gradring', 'run', '-n', '2', 'train.js'],
      ['node', '--input-type=module', '-e', connect],
    ] as const) {
      const { stderr } = spawnSync(command, args, started);
      expect(stderr).toMatch(/ERR_NODE_VERSION.* gradring works with Node .*; this is 18\./);
    }
  },
  120_000,
);

test('the oldest versions are among those that are tried', () => {
  expect(OLDEST).toEqual(['20.15', '22.2']);
});

testInstalled.each([...OLDEST, ...otherNodes()])(
  'with Node %s two ranks train without a warning of Node',
  async version => {
    const env = await fetchNode(folder, version);
    const project = path.join(folder, `project ${version}`);
    if (installed === undefined || version === NEWEST) {
      await install(makeProject(project), { packages: [archive], env });
      installed ??= project;
    } else {
      await copyProject(installed, project);
    }
    const gradring = (...args: string[]) =>
      promisify(execFile)(path.join(project, 'node_modules/.bin/gradring'), args, {
        cwd: project,
        env: { ...env, GRADRING_BACKEND: 'wasm' },
      });

    writeFileSync(path.join(project, 'train.mjs'), TRAINING);
    const { stdout, stderr } = await gradring('run', '-n', '2', '--no-prefix', 'train.mjs');
    const [first, second] = stdout.trim().split('\n').sort();
    expect(first).toMatch(new RegExp(`^v${version}\\.\\S+ 0 of 2 [0-9a-f]{64}$`));
    expect(second).toBe(first!.replace('0 of 2', '1 of 2'));
    expect(stderr).toBe('');

    if (version === OLDEST[0]) {
      const digits = path.join(project, 'node_modules/gradring/scripts/train/digits.js');
      const job = ['--epochs', '1', '--seeds', '1', '--batch-size', '512'];
      const main = await gradring('run', '-n', '2', digits, ...job);
      expect(main.stdout).toMatch(/ranks with the same weights +2 of 2 +2 of 2/);
      expect(main.stderr).not.toMatch(/Deprecat|ExperimentalWarning|\[DEP/);
    }

    const { findings } = JSON.parse((await gradring('doctor', '--json')).stdout) as { findings: Finding[] };
    const of = (name: string) => findings.find(({ what }) => what === name);
    expect(of('Node')).toMatchObject({ verdict: 'ok', words: expect.stringContaining(`v${version}.`) });
    expect(of('Shared memory')).toMatchObject({ verdict: 'ok' });
    expect(of('wasm')).toMatchObject({ verdict: 'ok' });
    expect(of('TensorFlow.js')).toMatchObject({ verdict: 'ok', words: expect.stringContaining('4.22.0, one copy') });
    expect(await coresIn(project)).toEqual(['4.22.0']);
  },
  300_000,
);

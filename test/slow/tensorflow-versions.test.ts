import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Finding } from '../../src/doctor/finding';
import { coresIn, install, type InstallOptions, makeProject, pack, registryObstacle } from './support/installed';
import { testWhere } from '../support/test-where';

const run = promisify(execFile);

const TFJS = '@tensorflow/tfjs';
const WASM = '@tensorflow/tfjs-backend-wasm';
const NODE = '@tensorflow/tfjs-node';

let folder: string;
let archive: string;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-versions-'));
  ({ archive } = await pack(folder));
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A program of the project that is installed. */
async function gradring(project: string, ...args: string[]): Promise<string> {
  const command = path.join(project, 'node_modules/.bin/gradring');
  const env = { ...process.env, GRADRING_BACKEND: 'wasm' };
  return (await run(command, args, { cwd: project, env })).stdout;
}

/** What `gradring doctor` finds, by what it checks. If there is a problem, it ends with exit code 1. */
async function findings(project: string): Promise<Record<string, Finding>> {
  const stdout = await gradring(project, 'doctor', '--json').catch((error: { stdout: string }) => error.stdout);
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  return Object.fromEntries(findings.map(finding => [finding.what, finding]));
}

/** What it says of copies of TensorFlow.js. */
const copies = async (project: string) => (await findings(project))['TensorFlow.js']!;

/** Trains on two ranks, with a model and an optimizer of the project's own TensorFlow.js if it has one. */
async function trainOnTwo(project: string, own: readonly string[]): Promise<void> {
  writeFileSync(
    path.join(project, 'train.js'),
    `const { connect, dgc, loadBackend } = require('gradring');
    (async () => {
      const loaded = await loadBackend();
      const tf = ${own.includes(TFJS) ? `require('${TFJS}')` : 'loaded.tf'};
      ${own.includes(WASM) ? `require('${WASM}');` : ''}
      const ring = await connect();
      const model = tf.sequential({ layers: [
        tf.layers.conv2d({ inputShape: [6, 6, 1], filters: 4, kernelSize: 3 }),
        tf.layers.maxPooling2d({ poolSize: 2 }),
        tf.layers.flatten(),
        tf.layers.dense({ units: 2 }),
      ] });
      const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ warmUpSteps: 2 }) });
      model.compile({ optimizer, loss: 'meanSquaredError' });
      const x = tf.range(0, 16 * 36).div(36).sin().reshape([16, 6, 6, 1]);
      await model.fit(...ring.shard(x, tf.ones([16, 2])), { epochs: 2, batchSize: 4, verbose: 0, callbacks: ring.callbacks() });
      console.log(loaded.name, tf.version.tfjs, ring.rank, 'of', ring.worldSize, await ring.verifyReplicas(model));
      await ring.close();
    })();`,
  );
  const output = await gradring(project, 'run', '-n', '2', '--no-prefix', 'train.js');
  const [[first, second, ...others], version] = [output.trim().split('\n').sort(), (await coresIn(project))[0]];
  expect([first, second, others]).toEqual([
    expect.stringMatching(new RegExp(`^wasm ${version} 0 of 2 [0-9a-f]{64}$`)),
    first!.replace('0 of 2', '1 of 2'),
    [],
  ]);
}

// The install script of tfjs-node downloads its library. Without it the package is there, but does not run.
const testInstalled = testWhere(registryObstacle());

const OPTIONS: InstallOptions = { args: ['--ignore-scripts'] };

// node-versions.test.ts has a project without a TensorFlow.js of its own.
testInstalled.each([
  ['npm', 'tfjs and tfjs-backend-wasm 4.21', { [TFJS]: '4.21.0', [WASM]: '4.21.0' }, '4.21.0'],
  ['npm', 'tfjs-node 4.22', { [NODE]: '4.22.0' }, '4.22.0'],
  ['pnpm', 'tfjs and tfjs-node 4.20', { [TFJS]: '4.20.0', [NODE]: '4.20.0' }, '4.20.0'],
] as const)(
  'installed by %s, a project with %s has one copy, and trains on it',
  async (manager, name, dependencies: Readonly<Record<string, string>>, version) => {
    const wanted = { ...dependencies, gradring: `file:${archive}` };
    const project = makeProject(path.join(folder, `${manager} ${name}`), wanted);
    await install(project, { ...OPTIONS, manager });
    expect(await coresIn(project)).toEqual([version]);
    await trainOnTwo(project, Object.keys(dependencies));
    expect(await copies(project)).toMatchObject({
      verdict: 'ok',
      words: expect.stringContaining(`${version}, one copy`),
    });
  },
  240_000,
);

testInstalled(
  'beside a tfjs-node that is there already, npm installs no second copy',
  async () => {
    const project = makeProject(path.join(folder, 'later'), { [NODE]: '4.20.0' });
    await install(project, OPTIONS);
    await install(project, { ...OPTIONS, packages: [archive] });
    expect(await coresIn(project)).toEqual(['4.20.0']);
  },
  240_000,
);

testInstalled(
  'where npm installs two copies, doctor says so, and the command that it gives leaves one',
  async () => {
    // npm chooses the newest TensorFlow.js for gradring before it looks at what tfjs-node depends on.
    const project = makeProject(path.join(folder, 'two'), { [NODE]: '4.20.0', gradring: `file:${archive}` });
    await install(project, OPTIONS);
    expect((await coresIn(project)).sort()).toEqual(['4.20.0', '4.22.0']);
    const { verdict, words } = await copies(project);
    expect(verdict).toBe('problem');
    const [, packages] = /^2 copies, .*; run npm install ([^,]*),/.exec(words)!;
    await install(project, { ...OPTIONS, packages: packages!.split(' ') });
    expect(await coresIn(project)).toEqual(['4.22.0']);
    expect(await copies(project)).toMatchObject({ verdict: 'ok' });
  },
  240_000,
);

testInstalled(
  'npm refuses a TensorFlow.js that is not supported',
  async () => {
    const project = makeProject(path.join(folder, 'old'), { [TFJS]: '4.19.0', gradring: `file:${archive}` });
    const refused = install(project, { args: ['--package-lock-only'] });
    await expect(refused).rejects.toThrow(/peer @tensorflow\/tfjs@">=4\.20\.0 <4\.23\.0" from gradring/);
  },
  240_000,
);

testInstalled(
  'where npm was told to install no peers, doctor says what is missing',
  async () => {
    const project = makeProject(path.join(folder, 'none'), { gradring: `file:${archive}` });
    await install(project, { args: ['--legacy-peer-deps', '--omit=optional'] });
    expect(await findings(project)).toMatchObject({
      'TensorFlow.js': {
        verdict: 'problem',
        words: "gradring finds no @tensorflow/tfjs; run npm install '@tensorflow/tfjs@>=4.20.0 <4.23.0'",
      },
      'Shared memory': { words: expect.stringMatching(/koffi did not install \(npm install --include=optional\)/) },
      'tfjs-node-gpu': {
        verdict: 'absent',
        words: expect.stringMatching(/^@tensorflow\/tfjs-node-gpu is not installed/),
      },
      'A training': { verdict: 'problem' },
    });
  },
  240_000,
);

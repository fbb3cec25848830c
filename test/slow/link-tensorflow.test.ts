import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Summary } from '../operations/compare';
import { testWhere } from '../support/test-where';
import {
  fetchNode,
  libraryObstacle,
  otherNodes,
  projectWithPackage,
  registryObstacle,
  sharedCache,
} from './support/installed';

const run = promisify(execFile);
const ROOT = path.join(__dirname, '../..');

let folder: string;

beforeAll(() => (folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-link-')))));
afterAll(() => rmSync(folder, { recursive: true }));

/** How the programs of a project are run. Returns what they print to stdout. */
type Run = (command: string, ...args: string[]) => Promise<string>;

/** A project that has installed gradring as it would be published. */
async function projectWithGradring(): Promise<(nodeEnv?: NodeJS.ProcessEnv) => Run> {
  const project = await projectWithPackage(folder, 'project');
  return (nodeEnv = process.env) =>
    async (command, ...args) => {
      const env = { ...nodeEnv, XDG_CACHE_HOME: sharedCache(folder) };
      return (await run(command, args, { cwd: project, env })).stdout;
    };
}

/** Compares all operations on tfjs-node with true results and gradients, as operations.test.ts does on wasm and cpu. */
async function expectNoWrongNumber(): Promise<void> {
  const measure = path.join(__dirname, '../../scripts/operations/measure.js');
  const args = [measure, '--project', path.join(folder, 'project'), NAME];
  const { stdout } = await run(process.execPath, args, { maxBuffer: 2 ** 26 });
  const measured = (JSON.parse(stdout) as Record<string, { untried: string[]; operations: Record<string, Summary> }>)[NAME]!; // prettier-ignore
  const wrong = Object.entries(measured.operations).filter(([, { failures }]) => failures.some(({ why }) => why === 'wrong')); // prettier-ignore
  expect(wrong).toEqual([]);
  expect(measured.untried).toEqual([]);
}

/** The other one is linked by backends.test.ts. */
const NAME = 'tfjs-node';

const TRAINED = new RegExp(`${NAME} [0-9a-f]{64}`, 'g');

/** Saves a model without tfjs-node, loads it with tfjs-node, saves it there, and loads it without. */
async function exchangeModels(inProject: Run): Promise<void> {
  const script = path.join(folder, 'project/models.js');
  writeFileSync(
    script,
    `const { loadBackend } = require('gradring');
    const [backend, source, target] = process.argv.slice(2);
    (async () => {
      const { tf } = await loadBackend({ backend });
      let model;
      if (source) model = await tf.loadLayersModel('file://' + source + '/model.json');
      else {
        model = tf.sequential({ layers: [
          tf.layers.conv2d({ inputShape: [6, 6, 1], filters: 2, kernelSize: 3 }),
          tf.layers.reshape({ targetShape: [4, 8] }),
          tf.layers.lstm({ units: 3 }),
        ] });
        model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError' });
        await model.fit(tf.ones([4, 6, 6, 1]), tf.ones([4, 3]), { verbose: 0 });
      }
      await model.save('file://' + target, { includeOptimizer: true });
      const x = tf.range(0, 72).div(36).sin().reshape([2, 6, 6, 1]);
      const optimizer = await model.optimizer.getWeights();
      const [{ constructor: { name: handler } }, ...others] = tf.io.getSaveHandlers('file://x');
      console.log(JSON.stringify({
        handlers: [handler, ...others],
        predictions: Array.from(model.predict(x).dataSync()),
        optimizer: optimizer.map(({ tensor }) => Array.from(tensor.dataSync())),
      }));
    })();`,
  );
  const models = async (...args: string[]) => JSON.parse(await inProject('node', script, ...args));
  const ours = await models('wasm', '', 'by wasm');
  const theirs = await models(NAME, 'by wasm', 'by tfjs-node');
  const again = await models('cpu', 'by tfjs-node', 'by cpu');
  expect([ours, theirs, again].map(({ handlers }) => handlers)).toEqual([['Object'], ['NodeFileSystem'], ['Object']]);
  for (const { predictions, optimizer } of [theirs, again]) {
    expect(optimizer).toEqual(ours.optimizer);
    predictions.forEach((value: number, i: number) => expect(value).toBeCloseTo(ours.predictions[i], 5));
  }
}

testWhere(registryObstacle())(
  'npm installs both packages into a clone of this repository, and changes nothing else',
  () => {
    const clone = path.join(folder, 'clone');
    const before = ['package.json', 'package-lock.json'];
    for (const file of before) cpSync(path.join(ROOT, file), path.join(clone, file));
    const install = `require(process.argv[1]).installPackage(process.argv[2]).then(console.log)`;
    const module = path.join(ROOT, 'dist/native-tensorflow/npm-package.js');
    for (const name of ['tfjs-node', 'tfjs-node-gpu']) {
      const { stdout, stderr } = spawnSync(process.execPath, ['-e', install, module, name], {
        cwd: clone,
        encoding: 'utf8',
      });
      expect({ stdout, stderr }).toEqual({ stdout: `${clone}/node_modules/@tensorflow/${name}\n`, stderr: '' });
    }
    const modules = path.join(clone, 'node_modules');
    expect([readdirSync(clone).sort(), readdirSync(modules)]).toEqual([
      ['node_modules', ...before].sort(),
      ['@tensorflow'],
    ]);
    expect(readdirSync(path.join(modules, '@tensorflow')).sort()).toEqual(['tfjs-node', 'tfjs-node-gpu']);
    for (const name of ['tfjs-node', 'tfjs-node-gpu']) {
      const { resolve } = createRequire(path.join(modules, '@tensorflow', name, 'package.json'));
      for (const needed of ['@mapbox/node-pre-gyp', 'adm-zip', 'tar']) expect(resolve(needed)).toContain(modules);
      expect(() => resolve('@tensorflow/tfjs')).toThrow(/Cannot find module/); // it uses the project's
    }
  },
  300_000,
);

testWhere(libraryObstacle() ?? registryObstacle(), false)(
  `${NAME} runs on a TensorFlow that pip fetches, and trains, on every Node; --undo takes it away`,
  async () => {
    const runWith = await projectWithGradring();
    const inProject = runWith();
    const linkPackage = async (name: string, ...args: string[]) =>
      JSON.parse(await inProject('npx', 'gradring', 'link-tensorflow', '--package', name, '--json', ...args));
    const link = (...args: string[]) => linkPackage(NAME, ...args);
    const works = { state: 'linked', proof: { device: 'CPU' } };
    const linked = await link();
    expect(linked).toMatchObject(works);
    expect(linked.proof.error).toBeLessThan(1e-3);
    expect(await linkPackage('tfjs-node-gpu')).toMatchObject(works); // and the first one stays
    expect(await link('--check')).toMatchObject(works);
    await linkPackage('tfjs-node-gpu', '--undo');
    const program = `
    const { connect, loadBackend, dgc } = require('gradring');
    (async () => {
      const { tf, name } = await loadBackend();
      const ring = await connect();
      const model = tf.sequential({ layers: [tf.layers.dense({ inputShape: [4], units: 2 })] });
      model.compile({ optimizer: ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc() }), loss: 'meanSquaredError' });
      await model.fit(...ring.shard(tf.ones([16, 4]), tf.ones([16, 2])), { epochs: 2, verbose: 0, callbacks: ring.callbacks() });
      console.log(name, await ring.verifyReplicas(model));
      await ring.close();
    })();`;
    const script = path.join(folder, 'project/train.js');
    writeFileSync(script, program);
    const train = (inProject: Run) => inProject('npx', 'gradring', 'run', '-n', '2', script);
    expect((await train(inProject)).match(TRAINED)).toHaveLength(2);
    for (const version of otherNodes()) {
      const nodeEnv = await fetchNode(folder, version);
      expect((await train(runWith(nodeEnv))).match(TRAINED)).toHaveLength(2);
    }
    await exchangeModels(inProject);
    await expectNoWrongNumber();
    const { removed, kept } = (await link('--undo')) as { removed: string[]; kept?: string };
    expect(removed).toEqual([expect.stringMatching(new RegExp(`node_modules/@tensorflow/${NAME}$`))]);
    if (kept !== undefined) expect(existsSync(kept)).toBe(true); // undefined where Python has a TensorFlow
    await expect(link('--check')).rejects.toMatchObject({ code: 1 });
  },
  600_000,
);

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { gradringHere } from '../launcher/run-here';
import { DOC_PAGES } from '../support/doc-pages';
import { install, makeProject, pack, projectWithPackage, registryObstacle } from './support/installed';
import { testWhere } from '../support/test-where';

const ROOT = path.join(__dirname, '../..');
const run = promisify(execFile);

let folder: string;
let project: string;
let packed: readonly string[];
let archive: string;
const obstacle = registryObstacle();

/** Runs a program of the project that has installed the package, on a backend. */
const runOn = async (backend: string, command: string, ...args: string[]) => {
  const { stdout } = await run(command, args, {
    cwd: project,
    env: { ...process.env, GRADRING_BACKEND: backend },
    timeout: 180_000,
  });
  return stdout;
};
const inProject = (command: string, ...args: string[]) => runOn('cpu', command, ...args);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-pack-'));
  ({ archive, files: packed } = await pack(folder));
  if (obstacle === undefined) project = await projectWithPackage(folder, 'project');
}, 300_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A test of the installed package. */
const testInstalled = (name: string, body: () => Promise<void>) => testWhere(obstacle)(name, body, 240_000);

test('the package holds what it runs on, and nothing that it does not', () => {
  const needed = [
    'dist/index.js',
    'dist/index.d.ts',
    'dist/core.js',
    'dist/core.d.ts',
    'dist/cli.js',
    'dist/comm-thread/comm-thread.js',
    'dist/kernels/kernels.wasm',
    'dist/bench/stream-floor.wasm',
    'dist/tensorflow/wasm-backend/tf-backend-wasm.node.js',
    'dist/tensorflow/wasm-backend/tfjs-backend-wasm-simd.wasm',
  ];
  const pages = [...DOC_PAGES.filter(page => page.startsWith('docs/')), 'docs/ring.svg'];
  expect(packed).toEqual(
    expect.arrayContaining([
      ...needed,
      ...pages,
      'README.md',
      'LICENSE',
      'NOTICE',
      'CHANGELOG.md',
      'schemas/frame.fbs',
      'scripts/train/data/optdigits.csv.gz',
    ]),
  );
  expect(
    packed.filter(file =>
      /^(src|test|node_modules)\/|^scripts\/(?!netlab$|network-lab\/|train\/)|tsbuildinfo/.test(file),
    ),
  ).toEqual([]);
});

/** The help of a command, and of all commands that it lists. */
async function helpOf(...command: string[]): Promise<string[]> {
  const { stdout } = await gradringHere(...command, '--help');
  const listed = stdout.matchAll(new RegExp(`^ +${['gradring', ...command].join(' ')} ([\\w-]+)`, 'gm'));
  const helps = [`${command.join(' ')}: ${stdout}`];
  if (!/^Commands:$/m.test(stdout)) return helps;
  for (const name of new Set([...listed].map(([, name]) => name!))) helps.push(...(await helpOf(...command, name)));
  return helps;
}

test('every file that a help names is in the package', async () => {
  const helps = await helpOf();
  expect(helps.map(help => /^.*?:/.exec(help)![0])).toEqual(
    expect.arrayContaining([':', 'run:', 'doctor:', 'link-tensorflow:', 'timeline:', 'bench codec:', 'bench barrier:']),
  );
  const named = helps.flatMap(help => [
    ...help.matchAll(/\b(?:docs|scripts|schemas|src|test)\/[\w./-]*\w|\b[\w-]+\.md\b/g),
  ]);
  const files = [...new Set(named.map(([file]) => file))];
  expect(files).toContain('docs/reference/benchmarks.md');
  expect(files.filter(file => !packed.includes(file))).toEqual([]);
}, 240_000);

test('the package tells where its repository is, so that links of the README work on npm', () => {
  const { repository, homepage, bugs } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
    repository: { url: string };
    homepage: string;
    bugs: string;
  };
  const [url] = /^https:\/\/github\.com\/[^/]+\/[^/]+(?=#readme$)/.exec(homepage)!;
  expect([repository.url, bugs]).toEqual([`git+${url}.git`, `${url}/issues`]);
});

const EXAMPLES = 'node_modules/gradring/scripts/train';

testInstalled('the training programs find all that they need', async () => {
  for (const name of ['digits', 'lstm', 'resnet', 'transformer']) {
    expect(await inProject(process.execPath, `${EXAMPLES}/${name}.js`, '--help')).toContain(`${name}.js [options]`);
  }
  const [digits, lstm] = await Promise.all([
    runOn('wasm', process.execPath, `${EXAMPLES}/digits.js`, '--epochs', '1', '--seeds', '1', '--batch-size', '512'),
    inProject(
      process.execPath,
      `${EXAMPLES}/lstm.js`,
      '--epochs',
      '1',
      '--rows',
      '32',
      '--units',
      '4',
      '--vocabulary',
      '50',
    ),
  ]);
  expect(digits).toMatch(/Data: real handwritten digits[^]*ranks with the same weights +1 of 1/);
  expect(lstm).toMatch(/Data: source text of TensorFlow\.js[^]*test perplexity [\d.]+/);
});

const TRAINING = `
  const { tf } = await loadBackend();
  const ring = await connect();
  const w = tf.variable(tf.zeros([2000]), true, 'w');
  const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ warmUpSteps: 2 }) });
  for (let step = 0; step < 5; step++) optimizer.minimize(() => w.sub(ring.rank).square().mean(), false, [w]);
  console.log('rank', ring.rank, 'of', ring.worldSize, await ring.verifyReplicas([w]));
  await ring.close();`;

async function twoRanks(script: string): Promise<void> {
  expectTwoRanks(await inProject('npx', 'gradring', 'run', '-n', '2', '--no-prefix', script));
}

function expectTwoRanks(output: string): void {
  const lines = output.trim().split('\n').sort();
  expect(lines).toEqual([expect.stringMatching(/^rank 0 of 2 /), expect.stringMatching(/^rank 1 of 2 /)]);
  expect(lines[0]!.split(' ')[4]).toBe(lines[1]!.split(' ')[4]);
}

const COMMON_JS = `const { connect, dgc, loadBackend } = require('gradring');\n(async () => {${TRAINING}\n})();\n`;

testInstalled('two ranks train from CommonJS', async () => {
  writeFileSync(path.join(project, 'train.cjs'), COMMON_JS);
  await twoRanks('train.cjs');
});

testInstalled('two ranks train from an ES module', async () => {
  writeFileSync(
    path.join(project, 'train.mjs'),
    `import { connect, dgc, loadBackend } from 'gradring';\n${TRAINING}\n`,
  );
  await twoRanks('train.mjs');
});

testInstalled('a program that esbuild bundles trains if gradring and TensorFlow.js stay outside', async () => {
  const bundler = makeProject(path.join(folder, 'bundler'));
  await install(bundler, { packages: ['esbuild@0.28'] });
  writeFileSync(path.join(project, 'program.cjs'), COMMON_JS);
  const bundle = (...options: string[]) => {
    const fixed = ['program.cjs', '--bundle', '--platform=node', '--outfile=bundled/program.cjs', '--log-level=error'];
    return inProject(path.join(bundler, 'node_modules/.bin/esbuild'), ...fixed, ...options);
  };
  await bundle('--external:gradring', '--external:@tensorflow/*');
  await twoRanks('bundled/program.cjs');
  await bundle('--external:zeromq', '--external:koffi');
  await expect(inProject(process.execPath, 'bundled/program.cjs')).rejects.toThrow(/esbuild --external:gradring/);
});

testInstalled("two ranks train with Yarn's Plug'n'Play", async () => {
  const plugged = makeProject(path.join(folder, 'plugged'), {
    gradring: `file:${archive}`,
    '@tensorflow/tfjs': '4.22.0',
  });
  const extensions = { '@tensorflow/tfjs@*': { dependencies: { long: '4.0.0' } } }; // as docs/how-to/backends.md says
  const settings = {
    packageExtensions: extensions,
    enableGlobalCache: false,
    enableTelemetry: false,
    enableImmutableInstalls: false,
  };
  writeFileSync(path.join(plugged, '.yarnrc.yml'), JSON.stringify(settings));
  writeFileSync(path.join(plugged, 'yarn.lock'), ''); // else it would belong to a project above
  writeFileSync(path.join(plugged, 'train.js'), COMMON_JS);
  const ssh = path.join(folder, 'ssh');
  mkdirSync(ssh);
  // A login on another host has none of the variables with which Yarn started the launcher.
  const login = `for command; do :; done; exec env -i PATH=/usr/bin:/bin HOME="$HOME" sh -c "$command"`;
  writeFileSync(path.join(ssh, 'ssh'), `#!/bin/sh\n${login}\n`, { mode: 0o755 });
  const env = { ...process.env, GRADRING_BACKEND: 'wasm', PATH: `${ssh}${path.delimiter}${process.env['PATH']}` };
  const yarn = async (...args: string[]) => {
    const result = run('npx', ['--yes', '@yarnpkg/cli-dist@4', ...args], { cwd: plugged, env });
    // Yarn writes to its output what went wrong.
    return (await result.catch(({ message, stdout }) => Promise.reject(new Error(`${message}\n${stdout}`)))).stdout;
  };
  await yarn('install');
  expectTwoRanks(await yarn('gradring', 'run', '-n', '2', '--no-prefix', 'train.js'));
  const hosts = ['-H', 'other:2', '--master-addr', '127.0.0.1'];
  expectTwoRanks(await yarn('gradring', 'run', ...hosts, '--no-prefix', 'train.js'));
});

testInstalled('both ways of import give the same names', async () => {
  const source = `
    import { createRequire } from 'node:module';
    import * as imported from 'gradring';
    const required = createRequire(import.meta.url)('gradring');
    console.log(JSON.stringify([Object.keys(required), Object.keys(required).filter(name => !(name in imported))]));`;
  writeFileSync(path.join(project, 'names.mjs'), source);
  const [names, missing] = JSON.parse(await inProject(process.execPath, 'names.mjs')) as [string[], string[]];
  expect(names).toEqual(
    expect.arrayContaining(['connect', 'dgc', 'launch', 'loadBackend', 'noCompression', 'GradringError']),
  );
  expect(missing).toEqual([]);
});

testInstalled('the command says its version', async () => {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
  expect((await inProject('npx', 'gradring', '--version')).trim()).toBe(version);
});

const CONSUMER = `
  import { connect, dgc, GradringError, launch, loadBackend, noCompression, type Compression, type Ring } from 'gradring';
  import * as tf from '@tensorflow/tfjs';

  export async function train(model: tf.LayersModel, x: tf.Tensor2D, y: tf.Tensor2D): Promise<number> {
    const { name } = await loadBackend({ backend: 'wasm' });
    const ring: Ring = await connect({ timeoutMs: 1000 });
    const compression: Compression = name === 'cpu' ? noCompression() : dgc({ sparsity: 0.999 });
    const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression });
    model.compile({ optimizer, loss: 'meanSquaredError' });
    const callbacks = ring.callbacks({ also: [tf.callbacks.earlyStopping(), new tf.CustomCallback({}), { onEpochEnd: epoch => console.log(epoch) }] });
    const [xs, ys]: [tf.Tensor2D, tf.Tensor2D] = ring.shard(x, y);
    await model.fit(xs, ys, { callbacks });
    await model.fitDataset(ring.shard(tf.data.zip({ xs: tf.data.array([[1]]), ys: tf.data.array([[1]]) })), { epochs: 1, callbacks });
    const sum: Float32Array = await ring.allReduce(new Float32Array(3), { op: 'mean' });
    try {
      await launch({ ranks: 2, script: 'train.js' });
    } catch (error) {
      if (error instanceof GradringError && error.code === 'ERR_PEER_LOST') return error.rank ?? -1;
    }
    // @ts-expect-error sparsity is a number
    dgc({ sparsity: '0.999' });
    // @ts-expect-error there is no such reduction
    await ring.allReduce(sum, { op: 'median' });
    return optimizer.statistics.bytesSent;
  }
`;

describe('a TypeScript program type-checks', () => {
  let complaints: Record<string, string>;
  beforeAll(async () => {
    if (obstacle !== undefined) return;
    writeFileSync(path.join(project, 'consumer.ts'), CONSUMER);
    const types = path.join(project, 'node_modules/@types/node');
    rmSync(types, { force: true, recursive: true });
    mkdirSync(path.dirname(types), { recursive: true });
    symlinkSync(path.join(ROOT, 'node_modules/@types/node'), types);
    complaints = JSON.parse(
      await inProject(process.execPath, path.join(__dirname, '../package/check-types.js'), 'consumer.ts'),
    ) as Record<string, string>;
  }, 240_000);

  for (const way of ['node16', 'bundler', 'node10', 'full check without dom']) {
    testInstalled(`in the way ${way}`, async () => {
      expect(complaints[way]).toBe('');
    });
  }
});

const CORE_CONSUMER = `
  import { connect, dgc, GradringError, noCompression, type CoreRing, type NamedUpdates } from 'gradring/core';

  export async function train(w: Float32Array): Promise<number> {
    const ring: CoreRing = await connect({ timeoutMs: 1000 });
    const gradients = ring.gradients({ w: [3], b: [] }, { compression: dgc({ steps: 100 }), momentum: 0.9 });
    const checkpoint = ring.checkpoint({ arrays: { w, b: w, n: new Int32Array(1) }, gradients }, { dir: 'saved' });
    const { step }: { step: number } = await checkpoint.resume();
    const updates: NamedUpdates<'w' | 'b'> = await gradients.step({ w, b: null });
    const skipping = ring.gradients({ w: [3] }, { compression: noCompression(), onNonFinite: 'skip' });
    const perhaps = skipping.stepSync({ w });
    if (perhaps !== null) w.set(perhaps.w);
    // @ts-expect-error the step may have been skipped
    w.set(skipping.stepSync({ w }).w);
    // @ts-expect-error there is no gradient of b
    await gradients.step({ w });
    // @ts-expect-error a gradient is a Float32Array
    await gradients.step({ w: [1, 2, 3], b: null });
    try {
      await ring.verifyReplicas({ w });
    } catch (error) {
      if (error instanceof GradringError && error.code === 'ERR_REPLICAS_DIVERGED') return error.rank ?? -1;
    }
    return updates.w.length + step + gradients.statistics.bytesSent;
  }
`;

describe('a project without TensorFlow.js', () => {
  let other: string;
  beforeAll(async () => {
    if (obstacle !== undefined) return;
    other = makeProject(path.join(folder, 'without TensorFlow.js'));
    await install(other, { packages: [archive, '@jax-js/jax@0.1.25'], args: ['--omit=optional', '--omit=peer'] });
    const types = path.join(other, 'node_modules/@types/node');
    mkdirSync(path.dirname(types), { recursive: true });
    symlinkSync(path.join(ROOT, 'node_modules/@types/node'), types);
  }, 300_000);

  const inOther = async (command: string, ...args: string[]) =>
    (await run(command, args, { cwd: other, timeout: 180_000 })).stdout;

  testInstalled('trains with jax-js on two ranks', async () => {
    expect(existsSync(path.join(other, 'node_modules/@tensorflow'))).toBe(false);
    const example = [`${EXAMPLES}/jax-digits.js`, '--epochs', '3'];
    const output = await inOther('npx', 'gradring', 'run', '-n', '2', '--no-prefix', ...example);
    expect(output).toMatch(/Data: real handwritten digits[^]*weights [0-9a-f]{8} on all ranks/);
    expect(Number(/test accuracy ([\d.]+) %/.exec(output)![1])).toBeGreaterThan(85);
  });

  testInstalled('type-checks, whatever finds its modules', async () => {
    writeFileSync(path.join(other, 'consumer.ts'), CORE_CONSUMER);
    const check = path.join(__dirname, '../package/check-types.js');
    const complaints = JSON.parse(await inOther(process.execPath, check, 'consumer.ts')) as Record<string, string>;
    expect(Object.keys(complaints)).toEqual(['node16', 'bundler', 'node10', 'full check without dom']);
    expect(Object.values(complaints).join('')).toBe('');
  });
});

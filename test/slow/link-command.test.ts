import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const CLI = path.join(__dirname, '../../dist/cli.js');
const NOTES = path.join(__dirname, '../../dist/native-tensorflow/link-note.js');

/**
 * A project of somebody's, with a package that has the looks of tfjs-node, in a version whose binding was never built.
 */
let project: string;
let packageDirectory: string;

beforeEach(() => {
  project = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-link-')));
  packageDirectory = path.join(project, 'node_modules/@tensorflow/tfjs-node');
  write('package.json', '{}');
});

afterEach(() => rmSync(project, { recursive: true }));

function write(file: string, text: string): void {
  mkdirSync(path.dirname(path.join(project, file)), { recursive: true });
  writeFileSync(path.join(project, file), text);
}

function installPackage(): void {
  const description = { name: '@tensorflow/tfjs-node', binary: { napi_versions: [3, 8] } };
  write('node_modules/@tensorflow/tfjs-node/package.json', JSON.stringify(description));
}

/** Something that has the looks of a libtensorflow. */
function unpackLibrary(): void {
  for (const file of [
    'include/tensorflow/c/eager/c_api.h',
    'lib/libtensorflow.so.2',
    'lib/libtensorflow_framework.so.2',
  ]) {
    write(path.join('unpacked', file), '');
  }
}

/** Where programs run, with a cache of their own. */
function inProject(folder = '.') {
  return { cwd: path.join(project, folder), env: { ...process.env, XDG_CACHE_HOME: path.join(project, 'cache') } };
}

function link(...args: string[]) {
  return linkIn('.', ...args);
}

function linkIn(folder: string, ...args: string[]) {
  return spawnSync(process.execPath, [CLI, 'link-tensorflow', '--package', 'tfjs-node', ...args], {
    ...inProject(folder),
    encoding: 'utf8',
  });
}

test('--check of a package that is not there', () => {
  const { status, stdout } = link('--check', '--json');
  expect(JSON.parse(stdout)).toEqual({ package: 'tfjs-node', state: 'not installed' });
  expect(status).toBe(1);
});

test('--check of a package without its binding says what builds it', () => {
  installPackage();
  const { status, stdout } = link('--check');
  expect(stdout).toMatch(/without its binding.*npx gradring link-tensorflow --package tfjs-node/);
  expect(status).toBe(1);
});

test.each([
  ['does not exist', ['--from', 'nowhere'], /ERR_TENSORFLOW: .*nowhere does not exist/],
  ['has no TensorFlow', ['--from', '.'], /has no TensorFlow to build against.*c_api\.h/],
])('a directory that %s', (_, args, words) => {
  const { status, stderr } = link(...args);
  expect(stderr).toMatch(words);
  expect(status).toBe(1);
});

describe('where everybody may write', () => {
  test('a package is refused: --check says so, and nothing of it is run, built or removed', () => {
    installPackage();
    unpackLibrary();
    write('node_modules/@tensorflow/tfjs-node/lib/napi-v8/tfjs_binding.node', '');
    write('node_modules/@tensorflow/tfjs-node/index.js', `require('node:fs').writeFileSync('trace', '')`);
    chmodSync(packageDirectory, 0o777);
    const why = `${packageDirectory} is not used, because everybody may write to ${packageDirectory} (set NODE_PATH=${project}/node_modules if you trust it)`;
    expect(JSON.parse(link('--check', '--json').stdout)).toEqual({
      package: 'tfjs-node',
      state: 'refused',
      failure: why,
    });
    expect(link('--check')).toMatchObject({ status: 1, stdout: `@tensorflow/tfjs-node is refused: ${why}\n` });
    for (const args of [['--from', 'unpacked'], ['--undo']]) {
      expect(link(...args)).toMatchObject({ status: 1, stderr: expect.stringContaining(`ERR_TENSORFLOW: ${why}.`) });
    }
    expect(existsSync(path.join(project, 'trace'))).toBe(false);
  });

  test('npm installs nothing, because its settings may be there', () => {
    unpackLibrary();
    chmodSync(project, 0o1777);
    expect(link('--from', 'unpacked')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`npm installs nothing in ${project}, because everybody may write to ${project}.`),
    });
  });

  const python = spawnSync('python3', ['-m', 'pip', '--version']).status === 0 ? test : test.skip;

  python('Python takes no modules, and no download of an earlier time', () => {
    for (const file of ['zipfile.py', 'contextlib.py', 'importlib/__init__.py', 'runpy.py', 'pip/__main__.py']) {
      write(file, `open('${project}/trace', 'w')`);
    }
    write('pip/__init__.py', '');
    write('tensorflow/__init__.py', '');
    const module = JSON.stringify(path.join(__dirname, '../../dist/native-tensorflow/python-packages.js'));
    const program = `
      const { fetchTensorFlow, installedTensorFlow } = require(${module});
      installedTensorFlow()
        .then(found => console.log(found))
        .then(() => fetchTensorFlow(() => undefined))
        .catch(error => console.log(error.message));`;
    const run = () => {
      const { cwd, env } = inProject();
      const options = { cwd, env: { ...env, PIP_NO_INDEX: '1' }, encoding: 'utf8' } as const;
      const { stdout } = spawnSync(process.execPath, ['-e', program], options);
      expect(existsSync(path.join(project, 'trace'))).toBe(false);
      expect(stdout).not.toMatch(new RegExp(`^${project}`)); // a TensorFlow of this machine, or none
      return stdout;
    };
    expect(run()).toMatch(/\npip cannot fetch tensorflow-cpu: .*No matching distribution/s);
    write('cache/gradring/tensorflow/tensorflow/x', '');
    chmodSync(path.join(project, 'cache/gradring/tensorflow'), 0o777);
    expect(run()).toMatch(/\neverybody may write to .*\/tensorflow\. Set XDG_CACHE_HOME to a folder of your own\./);
  });
});

test('--check and --undo exclude each other', () => {
  const { status, stderr } = link('--check', '--undo');
  expect(stderr).toContain('ERR_INVALID_ARGUMENT');
  expect(status).toBe(2);
});

test('a build that fails says why, and leaves the package as it was', () => {
  installPackage();
  unpackLibrary();
  write('node_modules/@tensorflow/tfjs-node/deps/mine', 'kept');
  const { status, stderr } = link('--from', 'unpacked');
  expect(stderr).toMatch(/node-gyp cannot build the binding.*apt-get install[^]*binding\.gyp/);
  expect(status).toBe(1);
  expect(readFileSync(path.join(packageDirectory, 'deps/mine'), 'utf8')).toBe('kept');
  for (const trace of ['deps/lib', 'deps.before-gradring', 'gradring-link.json', 'build']) {
    expect([trace, existsSync(path.join(packageDirectory, trace))]).toEqual([trace, false]);
  }
}, 60_000);

describe('a link that was made', () => {
  const WORKS = `
    const tf = require('@tensorflow/tfjs');
    tf.copyRegisteredKernels('cpu', 'tensorflow');
    const cpu = tf.findBackend('cpu');
    tf.registerBackend('tensorflow', () => cpu, 3);`;

  /** Leaves what a link leaves, with something in place of the package that does what `main` says. */
  function makeLink(main: string): void {
    installPackage();
    unpackLibrary();
    const home = 'node_modules/@tensorflow/tfjs-node';
    const libTensorFlow = { libraryDirectory: path.join(project, 'unpacked/lib'), library: 'libtensorflow.so.2' };
    write(`${home}/gradring-link.json`, JSON.stringify({ libTensorFlow, installedPackage: true, isComplete: true }));
    write(`${home}/lib/napi-v8/tfjs_binding.node`, '');
    write(`${home}/index.js`, main);
    const tfjs = JSON.stringify({ main: require.resolve('@tensorflow/tfjs') });
    write('node_modules/@tensorflow/tfjs/package.json', tfjs);
  }

  const loseLink = () => rmSync(packageDirectory, { recursive: true });

  test('is remembered when npm has removed it', () => {
    makeLink(WORKS);
    expect(link('--from', 'unpacked')).toMatchObject({ status: 0, stdout: expect.stringContaining('works') });
    loseLink();
    const command = `npx gradring link-tensorflow --package tfjs-node --from ${project}/unpacked`;
    expect(JSON.parse(link('--check', '--json').stdout)).toMatchObject({ state: 'link lost', relink: command });
    expect(link('--check')).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(new RegExp(`npm has removed the link.*${command}\n$`)),
    });
    installPackage(); // npm puts it back, without the binding
    expect(JSON.parse(link('--check', '--json').stdout)).toMatchObject({ state: 'link lost' });
  }, 60_000);

  /** What is remembered of a link. */
  function makeNote(): void {
    const program = `require(${JSON.stringify(NOTES)}).writeNote('tfjs-node', 'auto')`;
    expect(spawnSync(process.execPath, ['-e', program], inProject()).status).toBe(0);
    expect(JSON.parse(link('--check', '--json').stdout)).toMatchObject({ state: 'link lost' });
  }

  test('is forgotten by --undo, whether it is lost or not', () => {
    makeNote();
    expect(link('--undo').stdout).toBe('Removed the note of a link that npm has removed.\n');
    expect(JSON.parse(link('--check', '--json').stdout)).toMatchObject({ state: 'not installed' });
    makeNote();
    makeLink(WORKS);
    expect(link('--undo').stdout).toBe(`Removed ${packageDirectory}.\n`);
    expect(JSON.parse(link('--check', '--json').stdout)).toMatchObject({ state: 'not installed' });
  });

  test('in one project is not looked for in another', () => {
    makeNote();
    write('packages/other/package.json', '{}');
    write('src/program.js', '');
    const [other, same] = ['packages/other', 'src'].map(folder => linkIn(folder, '--check', '--json').stdout);
    expect(JSON.parse(other!)).toMatchObject({ state: 'not installed' });
    expect(JSON.parse(same!)).toMatchObject({ state: 'link lost' });
  });

  test('and does not work any more is built anew', () => {
    makeLink("throw new Error('symbol not found')");
    const { stderr } = link('--from', 'unpacked');
    expect(stderr).toMatch(/linked already[^]*symbol not found[^]*Building the binding/);
  }, 60_000);
});

test('--undo of what was never linked', () => {
  installPackage();
  const { status, stdout } = link('--undo');
  expect(stdout).toContain('is not linked');
  expect(status).toBe(0);
});

test('--undo of a link that was broken off puts back what was there', () => {
  installPackage();
  const record = { libTensorFlow: { libraryDirectory: '/elsewhere' }, installedPackage: false, isComplete: false };
  write('node_modules/@tensorflow/tfjs-node/gradring-link.json', JSON.stringify(record));
  write('node_modules/@tensorflow/tfjs-node/deps.before-gradring/mine', 'kept');
  write('node_modules/@tensorflow/tfjs-node/build/half', '');
  const { status, stdout } = link('--undo', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ removed: [`the link in ${packageDirectory}`] });
  expect(status).toBe(0);
  expect(existsSync(path.join(packageDirectory, 'deps/mine'))).toBe(true);
  expect(existsSync(path.join(packageDirectory, 'build'))).toBe(false);
  expect(existsSync(path.join(packageDirectory, 'gradring-link.json'))).toBe(false);
});

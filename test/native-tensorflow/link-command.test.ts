import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const CLI = path.join(__dirname, '../../dist/cli.js');

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

function link(...args: string[]) {
  return spawnSync(process.execPath, [CLI, 'link-tensorflow', '--package', 'tfjs-node', ...args], {
    cwd: project,
    encoding: 'utf8',
    env: { ...process.env, XDG_CACHE_HOME: path.join(project, 'cache') },
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
  ['holds no TensorFlow', ['--from', '.'], /holds no TensorFlow.*c_api\.h/],
])('a directory that %s', (_, args, words) => {
  const { status, stderr } = link(...args);
  expect(stderr).toMatch(words);
  expect(status).toBe(1);
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

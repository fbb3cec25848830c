import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { testWhere } from '../support/test-where';

// A process can hold one backend only, so each test runs a program of its own against the build.

/** The checkout. */
export const root = path.join(__dirname, '../..');
const modules = path.join(root, 'node_modules/@tensorflow');

/** The wasm backend that gradring carries for projects without their own. */
export const CARRIED_WASM = path.join(root, 'dist/tensorflow/wasm-backend');

/** Stands in for a native package: what it does at `require`, and whether its native binding is there. */
interface FakePackage {
  readonly main: string;
  readonly hasBinding: boolean;
}

export const REGISTERS_A_BACKEND = `
  const tf = require('@tensorflow/tfjs');
  tf.copyRegisteredKernels('cpu', 'tensorflow');
  const cpu = tf.findBackend('cpu');
  cpu.firstUse = false;
  tf.registerBackend('tensorflow', () => cpu, 3);`;

/** The folder of the test's program. */
export let directory: string;

/** Gives each test a {@link directory} of its own. */
export function useDirectory(): void {
  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), 'gradring-backend-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));
}

/** Makes the package as the program will find it: beside itself, resolving @tensorflow/tfjs as gradring does. */
export function installFake(name: string, { main, hasBinding }: FakePackage): void {
  const home = path.join(directory, 'node_modules/@tensorflow', name);
  mkdirSync(path.join(home, 'lib/napi-v8'), { recursive: true });
  if (hasBinding) writeFileSync(path.join(home, 'lib/napi-v8/tfjs_binding.node'), '');
  const description = { name: `@tensorflow/${name}`, main: 'main.js', binary: { napi_versions: [3, 8] } };
  writeFileSync(path.join(home, 'package.json'), JSON.stringify(description));
  writeFileSync(path.join(home, 'main.js'), main);
  const tfjs = path.join(directory, 'node_modules/@tensorflow/tfjs');
  mkdirSync(tfjs, { recursive: true });
  writeFileSync(path.join(tfjs, 'package.json'), JSON.stringify({ main: path.join(modules, 'tfjs/dist/tf.node.js') }));
}

interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

/** Runs the body of an async function that may use `loadBackend`, `tf` and what links are noted by. */
export async function run(body: string, env: NodeJS.ProcessEnv = {}): Promise<Outcome> {
  const program = path.join(directory, 'program.js');
  writeFileSync(
    program,
    `const { loadBackend } = require(${JSON.stringify(path.join(root, 'dist/tensorflow/backend.js'))});
     const { writeNote } = require(${JSON.stringify(path.join(root, 'dist/native-tensorflow/link-note.js'))});
     const tf = require(${JSON.stringify(path.join(modules, 'tfjs'))});
     (async () => { ${body} })();`,
  );
  const cache = path.join(directory, 'cache');
  const options = { cwd: directory, env: { ...process.env, GRADRING_BACKEND: '', XDG_CACHE_HOME: cache, ...env } };
  try {
    return { ...(await promisify(execFile)(process.execPath, [program], options)), code: 0 };
  } catch (error) {
    const { stdout, stderr, code } = error as Outcome;
    return { stdout, stderr, code };
  }
}

/** What `loadBackend` gives, or the code and message of the error that it raises, after some preparation. */
export async function load(
  options: string,
  env: NodeJS.ProcessEnv = {},
  before = '',
): Promise<Record<string, unknown>> {
  const { stdout, stderr } = await run(
    `${before}
     const lines = [];
     const options = { log: line => lines.push(line), ...${options} };
     const result = await loadBackend(options).then(
       loaded => ({ ...loaded, tf: undefined, sameModule: loaded.tf === tf, current: tf.getBackend() }),
       error => ({ code: error.code, message: error.message }));
     console.log('RESULT ' + JSON.stringify({ ...result, lines }));`,
    env,
  );
  const [noise, json] = stdout.split('RESULT ');
  return { ...JSON.parse(json!), noise: noise + stderr };
}

/** Cuts a program off from packages of this checkout, whatever is installed there. */
export function without(prefix: string): string {
  return `{
    const Module = require('node:module');
    const resolve = Module._resolveFilename;
    Module._resolveFilename = function (request, ...rest) {
      if (request.startsWith('${prefix}')) throw new Error('not found: ' + request);
      return resolve.call(this, request, ...rest);
    };
  }`;
}

// Fakes beside the program are found only where this checkout has no such package itself.
const isInstalled = (name: string) => {
  try {
    require.resolve(`@tensorflow/${name}/package.json`);
    return true;
  } catch {
    return false;
  }
};
const native = ['tfjs-node', 'tfjs-node-gpu'].find(isInstalled);
/** Tests with a package that takes the place of one that must not be there. */
export const testWithFakes = testWhere(native && `${native} is installed`);

/** What it says on stderr of faster backends that are there. */
export async function told(env: NodeJS.ProcessEnv = {}, before = ''): Promise<string> {
  return (await run(`${before} console.log((await loadBackend()).name);`, env)).stderr;
}

export const withoutBinding = { main: REGISTERS_A_BACKEND, hasBinding: false };

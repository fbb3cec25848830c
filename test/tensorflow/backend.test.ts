import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { testWhere } from '../support/test-where';

// A process can hold one backend only, so each test runs a program of its own against the build.
const root = path.join(__dirname, '../..');
const modules = path.join(root, 'node_modules/@tensorflow');

/** The wasm backend that gradring carries for projects without their own. */
const CARRIED_WASM = path.join(root, 'dist/tensorflow/wasm-backend');

/** Stands in for a native package: what it does at `require`, and whether its native binding is there. */
interface FakePackage {
  readonly main: string;
  readonly hasBinding: boolean;
}

const REGISTERS_A_BACKEND = `
  const tf = require('@tensorflow/tfjs');
  tf.copyRegisteredKernels('cpu', 'tensorflow');
  const cpu = tf.findBackend('cpu');
  cpu.firstUse = false;
  tf.registerBackend('tensorflow', () => cpu, 3);`;

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'gradring-backend-'));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** Makes the package as the program will find it: beside itself, resolving @tensorflow/tfjs as gradring does. */
function installFake(name: string, { main, hasBinding }: FakePackage): void {
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
async function run(body: string, env: NodeJS.ProcessEnv = {}): Promise<Outcome> {
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
async function load(options: string, env: NodeJS.ProcessEnv = {}, before = ''): Promise<Record<string, unknown>> {
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
function without(prefix: string): string {
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
const testWithFakes = testWhere(native && `${native} is installed`);

describe('a forced backend', () => {
  test.each(['wasm', 'cpu'])('%s, by the option, without noise', async name => {
    const result = await load(`{ backend: '${name}' }`);
    expect(result).toMatchObject({ name, current: name, sameModule: true, skipped: [], noise: '' });
    expect(result['reason']).toBe("asked for by the option 'backend'");
    expect(result['lines']).toEqual([expect.stringMatching(new RegExp(`runs on ${name}, asked for by the option`))]);
  });

  test.each([
    ['its own, if it is for the same TensorFlow.js', without(CARRIED_WASM)],
    ['that of gradring, if it has none', without('@tensorflow/tfjs-backend-wasm')],
  ])('wasm: a project uses %s', async (_, before) => {
    const result = await load("{ backend: 'wasm' }", {}, before);
    expect(result).toMatchObject({ name: 'wasm', current: 'wasm', noise: '' });
  });

  test('by GRADRING_BACKEND, which the option overrides', async () => {
    const env = { GRADRING_BACKEND: 'cpu' };
    expect(await load('{}', env)).toMatchObject({ name: 'cpu', reason: 'asked for by GRADRING_BACKEND' });
    expect(await load("{ backend: 'wasm' }", env)).toMatchObject({ name: 'wasm' });
  });

  test('of an unknown name is an error that lists the names', async () => {
    const { code, message } = await load('{}', { GRADRING_BACKEND: 'webgl' });
    expect(code).toBe('ERR_BACKEND');
    expect(message).toMatch(/'webgl', asked for by GRADRING_BACKEND, .*tfjs-node-gpu, tfjs-node, wasm, cpu\./);
  });

  testWithFakes('whose package has no native binding is an error that says how to build it', async () => {
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: false });
    const { code, message } = await load("{ backend: 'tfjs-node' }");
    expect(code).toBe('ERR_BACKEND');
    expect(message).toMatch(/without its native binding \(npx gradring link-tensorflow --package tfjs-node\)/);
  });

  test('that is not installed is an error that says what to install', async () => {
    const { code, message } = await load("{ backend: 'tfjs-node' }", {}, without('@tensorflow/tfjs-node'));
    expect(code).toBe('ERR_BACKEND');
    expect(message).toMatch(/is not installed \(npm install @tensorflow\/tfjs-node@\d+\.\d+\.\d+\)/);
  });
});

describe('the order of the backends', () => {
  test('is tried until one serves, and says why those before did not', async () => {
    const result = await load('{}');
    const names = ['tfjs-node-gpu', 'tfjs-node', 'wasm', 'cpu'];
    const skipped = result['skipped'] as { name: string; why: string }[];
    expect(skipped.map(({ name }) => name)).toEqual(names.slice(0, names.indexOf(result['name'] as string)));
    for (const { name, why } of skipped) {
      expect(why).toContain(`@tensorflow/${name}`);
      expect((result['lines'] as string[])[0]).toContain(why);
    }
  });

  testWithFakes('tfjs-node-gpu comes before tfjs-node', async () => {
    installFake('tfjs-node-gpu', { main: REGISTERS_A_BACKEND, hasBinding: true });
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    const result = await load('{}');
    expect(result).toMatchObject({ name: 'tfjs-node-gpu', current: 'tensorflow', sameModule: true, skipped: [] });
  });

  testWithFakes('a package that calls functions that Node has removed from util runs all the same', async () => {
    const calls = `
      const util = require('util');
      const add = tf.getKernel('Add', 'tensorflow');
      tf.unregisterKernel('Add', 'tensorflow');
      tf.registerKernel({ ...add, kernelFunc: args => {
        if (util.isNullOrUndefined(args.inputs.a) || !util.isNullOrUndefined(null) || !util.isArray([])) throw new Error();
        return add.kernelFunc(args);
      }});`;
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND + calls, hasBinding: true });
    const asOnNode23 = 'const util = require("util"); const { isArray } = util; delete util.isNullOrUndefined;';
    const restores = 'console.log(util.isArray === isArray, Object.keys(util).includes("isNullOrUndefined"));';
    const { stdout } = await run(`${asOnNode23} console.log((await loadBackend()).name); ${restores}`);
    expect(stdout.split('\n')).toEqual(['tfjs-node', 'true false', '']);
    const { name } = await load(
      '{}',
      {},
      'const util = require("util"); delete util.isNullOrUndefined; delete util.isArray;',
    );
    expect(name).toBe('tfjs-node');
  });

  testWithFakes('goes on, without noise, after a package that fails when half registered', async () => {
    installFake('tfjs-node-gpu', {
      main: `${REGISTERS_A_BACKEND}; throw new Error('libcuda.so: cannot open shared object file');`,
      hasBinding: true,
    });
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    expect(await load('{}', { LOCAL_RANK: '1' })).toMatchObject({
      name: 'tfjs-node',
      skipped: [{ name: 'tfjs-node-gpu', why: expect.stringMatching(/libcuda.so: cannot open shared object file/) }],
      noise: '',
    });
  });

  testWithFakes('goes on after a native backend that cannot compute', async () => {
    const broken = REGISTERS_A_BACKEND.replace('() => cpu', "() => { throw new Error('no such device'); }");
    installFake('tfjs-node', { main: broken, hasBinding: true });
    expect(await load('{}')).toMatchObject({
      name: 'wasm',
      current: 'wasm',
      skipped: [{ name: 'tfjs-node-gpu' }, { name: 'tfjs-node', why: expect.stringContaining('failed') }],
    });
  });

  testWithFakes('passes over a package that uses another copy of @tensorflow/tfjs', async () => {
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    const copy = path.join(directory, 'node_modules/@tensorflow/tfjs');
    writeFileSync(path.join(copy, 'package.json'), JSON.stringify({ main: 'copy.js' }));
    writeFileSync(path.join(copy, 'copy.js'), '');
    const { name, skipped } = await load('{}');
    expect(name).toBe('wasm');
    expect(skipped).toContainEqual({ name: 'tfjs-node', why: expect.stringContaining('another copy') });
  });
});

describe('a faster backend that is there but does not load is told on stderr', () => {
  const told = async (env: NodeJS.ProcessEnv = {}, before = '') =>
    (await run(`${before} console.log((await loadBackend()).name);`, env)).stderr;
  const withoutBinding = { main: REGISTERS_A_BACKEND, hasBinding: false };

  testWithFakes('in one line, with the command that mends it', async () => {
    installFake('tfjs-node', withoutBinding);
    expect(await told()).toBe(
      'gradring: a faster backend than wasm did not load (GRADRING_BACKEND=wasm silences this line). ' +
        '@tensorflow/tfjs-node is installed without its native binding; ' +
        'run: npx gradring link-tensorflow --package tfjs-node\n',
    );
  });

  testWithFakes('if its binding does not load, with the reason', async () => {
    installFake('tfjs-node-gpu', { main: "throw new Error('libcuda.so: no such file')", hasBinding: true });
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    expect(await told()).toMatch(
      /than tfjs-node did .*-gpu does not load: libcuda\.so: no such file; .*npx gradring link-tensorflow --package tfjs-node-gpu\n$/,
    );
  });

  testWithFakes('if it uses another TensorFlow.js', async () => {
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    const copy = path.join(directory, 'node_modules/@tensorflow/tfjs');
    writeFileSync(path.join(copy, 'package.json'), JSON.stringify({ main: 'copy.js' }));
    writeFileSync(path.join(copy, 'copy.js'), '');
    expect(await told()).toMatch(/another copy.*npm install @tensorflow\/tfjs@[\d.]+ @tensorflow\/tfjs-node@[\d.]+\n$/);
  });

  testWithFakes('also if it is wasm', async () => {
    const before = without('@tensorflow/tfjs-backend-wasm') + without(CARRIED_WASM);
    expect(await told({}, before)).toMatch(/wasm does not load: not found: .*; run: npx gradring doctor\n$/);
  });

  testWithFakes('by the first rank of a host alone', async () => {
    installFake('tfjs-node', withoutBinding);
    expect(await told({ LOCAL_RANK: '0' })).toContain('without its native binding');
    expect(await told({ LOCAL_RANK: '1' })).toBe('');
  });

  testWithFakes('not if a backend was asked for', async () => {
    installFake('tfjs-node', withoutBinding);
    expect(await told({ GRADRING_BACKEND: 'wasm' })).toBe('');
  });

  testWithFakes('not if it is the package for GPUs, never built, where tfjs-node runs', async () => {
    installFake('tfjs-node-gpu', withoutBinding);
    installFake('tfjs-node', { main: REGISTERS_A_BACKEND, hasBinding: true });
    expect(await told()).toBe('');
  });

  testWithFakes('not if none was ever installed', async () => {
    expect(await told()).toBe('');
  });

  describe('if npm has removed the link', () => {
    beforeEach(() => writeFileSync(path.join(directory, 'package.json'), '{}'));

    testWithFakes('with the command that was used', async () => {
      const stderr = await told({}, "writeNote('tfjs-node', 'my env');");
      expect(stderr).toMatch(/npm has removed the link of @tensorflow\/tfjs-node to TensorFlow; /);
      const from = path.join(realpathSync(directory), 'my env');
      expect(stderr).toMatch(new RegExp(`run: npx gradring link-tensorflow --package tfjs-node --from '${from}'\n$`));
      installFake('tfjs-node', withoutBinding); // as if npm had installed it anew
      installFake('tfjs-node-gpu', withoutBinding); // nobody had linked this one
      expect(await told()).toBe(stderr);
    });

    testWithFakes('also to a program that was started elsewhere', async () => {
      const stderr = await told({}, "writeNote('tfjs-node', 'auto'); process.chdir('/');");
      expect(stderr).toMatch(
        new RegExp(`run: cd ${realpathSync(directory)} && npx gradring link-tensorflow --package tfjs-node\n$`),
      );
    });

    testWithFakes.each([
      ['cannot be read', "writeFileSync(file, '{')"],
      ['everybody may write', 'chmodSync(file, 0o666)'],
    ])('but a note that %s is none', async (_, spoil) => {
      const spoilt = `
        writeNote('tfjs-node', 'auto');
        const { chmodSync, readdirSync, writeFileSync } = require('node:fs');
        for (const name of readdirSync('cache', { recursive: true })) {
          const file = 'cache/' + name;
          if (name.endsWith('.json')) ${spoil};
        }`;
      expect(await told({}, spoilt)).toBe('');
    });
  });
});

describe('what others may have put there', () => {
  let trace: string;
  /** Leaves a trace. */
  const leaveTrace = () => `require('node:fs').writeFileSync(${JSON.stringify(trace)}, '');`;

  beforeEach(() => {
    trace = path.join(directory, 'trace');
    const main = leaveTrace() + REGISTERS_A_BACKEND;
    for (const name of ['tfjs-node-gpu', 'tfjs-node']) installFake(name, { main, hasBinding: true });
  });

  /** Runs a program, in whose working directory all these packages are. */
  async function nameOn(...args: string[]): Promise<string> {
    const env = { ...process.env, GRADRING_BACKEND: '', XDG_CACHE_HOME: directory };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: directory, env });
    expect({ stderr, isRun: existsSync(trace) }).toEqual({ stderr: '', isRun: false });
    return stdout;
  }

  const PROGRAM = `require(${JSON.stringify(root)}).loadBackend().then(({ name }) => console.log(name))`;

  testWithFakes('above the project and in the working directory is not loaded', async () => {
    const program = path.join(directory, 'project/program.js');
    mkdirSync(path.dirname(program));
    writeFileSync(path.join(directory, 'project/package.json'), '{ "name": "project" }');
    writeFileSync(program, PROGRAM);
    expect(await nameOn(program)).toBe('wasm\n');
  });

  testWithFakes('beside the data of a program that is no file is not loaded', async () => {
    expect(await nameOn('-e', PROGRAM, path.join(directory, 'data.csv'))).toBe('wasm\n');
    expect(await nameOn('-e', PROGRAM, 'data.csv')).toBe('wasm\n');
  });

  testWithFakes('in the project is refused where everybody may write to, with the folder and what to do', async () => {
    const modules = path.join(realpathSync(directory), 'node_modules');
    chmodSync(path.join(modules, '@tensorflow'), 0o777);
    const { stdout, stderr } = await run('console.log((await loadBackend()).name);');
    expect({ stdout, isRun: existsSync(trace) }).toEqual({ stdout: 'wasm\n', isRun: false });
    expect(stderr).toMatch(/^gradring: a faster backend than wasm did not load .*\n$/);
    expect(stderr).toContain(
      `${modules}/@tensorflow/tfjs-node-gpu is not used, because everybody may write to ${modules}/@tensorflow (set NODE_PATH=${modules} if you trust it); run: npm install @tensorflow/tfjs-node-gpu@`,
    );
    expect((await run('console.log((await loadBackend()).name);', { NODE_PATH: modules })).stdout).toBe(
      'tfjs-node-gpu\n',
    );
  });

  testWithFakes('is refused too if it is asked for', async () => {
    chmodSync(path.join(directory, 'node_modules'), 0o1777);
    const { code, message } = await load("{ backend: 'tfjs-node' }");
    expect([code, existsSync(trace)]).toEqual(['ERR_BACKEND', false]);
    expect(message).toMatch(/tfjs-node is not used, because everybody may write to .*node_modules /);
  });

  testWithFakes('in the folder of its main file is refused', async () => {
    const home = path.join(directory, 'node_modules/@tensorflow/tfjs-node');
    mkdirSync(path.join(home, 'dist'));
    writeFileSync(path.join(home, 'dist/index.js'), leaveTrace());
    const description = { name: '@tensorflow/tfjs-node', main: 'dist/index.js', binary: { napi_versions: [3, 8] } };
    writeFileSync(path.join(home, 'package.json'), JSON.stringify(description));
    chmodSync(path.join(home, 'dist'), 0o777);
    const { message } = await load("{ backend: 'tfjs-node' }");
    expect(message).toMatch(/is not used, because everybody may write to .*tfjs-node\/dist /);
    expect(existsSync(trace)).toBe(false);
  });
});

describe('a second call', () => {
  test('gives the same backend, to callers at the same time too, and logs once', async () => {
    const { stdout } = await run(`
      const [a, b] = await Promise.all([loadBackend({ backend: 'cpu', log: console.log }), loadBackend()]);
      console.log(a === b, a === await loadBackend({ backend: 'cpu', log: console.log }));`);
    expect(stdout.trim().split('\n')).toEqual([expect.stringContaining('runs on cpu'), 'true true']);
  });

  test('for another backend is an error', async () => {
    const before = "await loadBackend({ backend: 'cpu' });";
    const { code, message } = await load("{ backend: 'wasm' }", {}, before);
    expect(code).toBe('ERR_BACKEND');
    expect(message).toMatch(/'wasm' was asked for .* already runs on 'cpu'/);
  });

  testWithFakes('after a failure tries again', async () => {
    installFake('tfjs-node', { main: "throw new Error('fails');", hasBinding: true });
    const before = "await loadBackend({ backend: 'tfjs-node' }).catch(error => console.log(error.message));";
    const { noise, name } = await load("{ backend: 'cpu' }", {}, before);
    expect([noise, name]).toEqual([expect.stringContaining('fails'), 'cpu']);
  });
});

test('an uncaught error still ends a wasm process with exit code 1', async () => {
  const body = (fail: string) => `await loadBackend({ backend: 'wasm' }); ${fail}`;
  const thrown = await run(body("setTimeout(() => { throw new Error('thrown'); })"));
  expect(thrown).toMatchObject({ code: 1, stderr: expect.stringContaining('Error: thrown') });
  const rejected = await run(body("throw new Error('rejected')"));
  expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining('Error: rejected') });
});

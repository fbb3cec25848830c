import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  CARRIED_WASM,
  directory,
  installFake,
  load,
  REGISTERS_A_BACKEND,
  root,
  run,
  testWithFakes,
  told,
  useDirectory,
  without,
  withoutBinding,
} from '../tensorflow/backend-programs';

useDirectory();

describe('a forced backend', () => {
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

import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describeWith } from './support/programs';

const ROOT = path.join(__dirname, '../..');

/** The attacker: another user of this machine. */
const STRANGER = 54_321;
const USER = 54_322;

/** What the attacker's code writes. */
const STOLEN = 'console.log("STOLEN", process.env.GRADRING_RUN_TOKEN);';

/** Scripts in TypeScript need a loader, also where Node could run them. */
const NO_TYPES = process.allowedNodeEnvironmentFlags.has('--experimental-strip-types')
  ? ['--node-args=--no-experimental-strip-types']
  : [];

const NAMES_BACKEND = `require(PACKAGE).loadBackend().then(({ name }) => console.log('runs on ' + name));`;

const LOOKS_LIKE_TFJS_NODE = `
  const tf = require('@tensorflow/tfjs');
  tf.copyRegisteredKernels('cpu', 'tensorflow');
  const cpu = tf.findBackend('cpu');
  cpu.firstUse = false;
  tf.registerBackend('tensorflow', () => cpu, 3);`;

describeWith(['setpriv', 'mkfifo'], 'another user of this machine', () => {
  /** As /tmp: all users may write to it. */
  let shared: string;
  /** The user's project, in the shared folder, with gradring. */
  let project: string;
  let owner: number;

  /** Does something as a user. */
  const as = (user: number, command: string, ...args: string[]) =>
    execFileSync('setpriv', [`--reuid=${user}`, `--regid=${user}`, '--clear-groups', command, ...args]);

  /** A file of a user, in the shared folder. */
  function write(user: number, file: string, text: string): string {
    const whole = path.join(shared, file);
    as(user, 'sh', '-c', 'mkdir -p "$(dirname "$0")" && printf %s "$1" >"$0"', whole, text);
    return whole;
  }

  /** All packages that gradring may look for. */
  function plant(user: number, folder: string, main = STOLEN): void {
    const install = (name: string, more = {}) => {
      const home = `${folder}/node_modules/${name}`;
      write(user, `${home}/package.json`, JSON.stringify({ name, main: 'main.js', ...more }));
      write(user, `${home}/main.js`, main);
    };
    for (const name of ['tsx', 'ts-node', 'koffi', '@tensorflow/tfjs-backend-wasm']) install(name);
    write(user, `${folder}/node_modules/ts-node/register/index.js`, main);
    for (const name of ['tfjs-node-gpu', 'tfjs-node']) {
      install(`@tensorflow/${name}`, { binary: { napi_versions: [8] } });
      write(user, `${folder}/node_modules/@tensorflow/${name}/lib/napi-v8/tfjs_binding.node`, '');
    }
    for (const name of ['tfjs', 'tfjs-core']) {
      const link = path.join(shared, folder, 'node_modules/@tensorflow', name);
      as(user, 'ln', '-s', path.join(ROOT, 'node_modules/@tensorflow', name), link);
    }
  }

  /** A folder of the user, in the shared one. */
  function folderOf(user: number, name: string, mode = 0o755): string {
    const folder = path.join(shared, name);
    mkdirSync(folder);
    chmodSync(folder, mode);
    chownSync(folder, user, user);
    return folder;
  }

  /** What the user's `gradring` writes, in a folder to which all may write. */
  function gradring(args: string[], more: { cwd?: string; env?: NodeJS.ProcessEnv; script?: string } = {}): string {
    const { cwd = path.join(shared, 'here'), env = {}, script } = more;
    const all = [path.join(project, 'node_modules/gradring/dist/cli.js'), ...args, ...(script ? [script] : [])];
    const { stdout, stderr, error } = spawnSync(process.execPath, all, {
      cwd,
      env: { PATH: process.env['PATH'], HOME: project, ...env },
      encoding: 'utf8',
      timeout: 60_000,
      uid: owner,
      gid: owner,
    });
    expect({ error, output: stdout + stderr }).toEqual({
      error: undefined,
      output: expect.not.stringContaining('STOLEN') as string,
    });
    return stdout + stderr;
  }

  const run = (script: string, more: Parameters<typeof gradring>[1] = {}) =>
    gradring(['run', '-n', '1', '--no-prefix', ...NO_TYPES], { ...more, script });

  const program = (text: string) =>
    text.replace('PACKAGE', JSON.stringify(path.join(project, 'node_modules/gradring')));

  const belongsToStranger = (folder: string) => `${folder} belongs to the user ${STRANGER}, and not to you or to root`;

  beforeEach(() => {
    shared = mkdtempSync(path.join(tmpdir(), 'gradring-shared-'));
    chmodSync(shared, 0o1777);
  });
  afterEach(() => rmSync(shared, { recursive: true }));

  /** The project as npm would install it, but without what is optional. */
  function makeProject(user: number): void {
    owner = user;
    project = folderOf(user, 'project');
    const modules = path.join(project, 'node_modules');
    mkdirSync(path.join(modules, '@tensorflow'), { recursive: true });
    for (const name of ['dist', 'package.json']) {
      cpSync(path.join(ROOT, name), path.join(modules, 'gradring', name), { recursive: true });
    }
    for (const name of ['flatbuffers', 'picocolors', 'seedrandom', 'uplot', 'yargs', 'zeromq', '@tensorflow/tfjs']) {
      symlinkSync(path.join(ROOT, 'node_modules', name), path.join(modules, name));
    }
    writeFileSync(path.join(project, 'package.json'), '{ "name": "project" }');
    execFileSync('chown', ['-hR', `${user}:${user}`, project]);
    folderOf(0, 'here', 0o1777);
  }

  describe.each([
    ['root', 0],
    ['an ordinary user', USER],
  ])('gets none of its code run by %s', (_, user) => {
    beforeEach(() => makeProject(user));

    test('above the project and in the working directory', () => {
      for (const folder of ['.', 'here']) plant(STRANGER, folder);
      const script = write(user, 'project/x.js', program(NAMES_BACKEND));
      expect(run(script)).toBe('runs on wasm\n');
      expect(run(write(user, 'project/x.ts', ''))).toContain('x.ts is TypeScript, which Node.js');
      expect(run(path.join(project, 'x.ts'))).toContain('no loader for it was found');
      // Its own package.json makes no workspaces of the user's project, and is not even read.
      write(STRANGER, 'package.json', '{ "name": "all", "workspaces": ["*"] }');
      write(STRANGER, 'pnpm-workspace.yaml', '');
      expect(run(script)).toBe('runs on wasm\n');
      expect(run(path.join(project, 'x.ts'))).toContain('no loader for it was found');
      as(STRANGER, 'rm', path.join(shared, 'package.json'));
      as(STRANGER, 'mkfifo', path.join(shared, 'package.json'));
      expect(run(script, { cwd: project })).toBe('runs on wasm\n'); // Node itself reads that of the working directory
      as(STRANGER, 'rm', path.join(shared, 'package.json'));
      as(STRANGER, 'ln', '-s', 'package.json', path.join(shared, 'package.json'));
      expect(run(script)).toBe('runs on wasm\n');
    }, 120_000);

    test('above a program that is in no project: the message says whose it is', () => {
      plant(STRANGER, '.');
      const why = belongsToStranger(path.join(shared, 'node_modules'));
      for (const folder of ['.', 'loose']) {
        const output = run(write(user, `${folder}/x.js`, program(NAMES_BACKEND)));
        expect(output).toContain('runs on wasm\n');
        expect(output).toContain(
          `gradring: a faster backend than wasm did not load (GRADRING_BACKEND=wasm silences this line). ` +
            `${shared}/node_modules/@tensorflow/tfjs-node-gpu is not used, because ${why}`,
        );
        expect(run(write(user, `${folder}/x.ts`, ''))).toContain(
          `${shared}/node_modules/tsx is not used, because ${why}`,
        );
      }
    }, 60_000);

    test('in the project itself, where others may add folders', () => {
      const open = folderOf(user, 'open', 0o1777);
      write(user, 'open/package.json', '{ "name": "open" }');
      plant(STRANGER, 'open');
      const why = belongsToStranger(path.join(open, 'node_modules'));
      const output = run(write(user, 'open/x.js', program(NAMES_BACKEND)));
      expect(output).toContain('runs on wasm\n');
      expect(output).toContain(`tfjs-node-gpu is not used, because ${why}`);
      expect(run(write(user, 'open/x.ts', ''))).toContain(`${open}/node_modules/tsx is not used, because ${why}`);
      // A link of the stranger to what the user has is the stranger's choice, too.
      as(STRANGER, 'rm', '-r', path.join(open, 'node_modules'));
      plant(user, 'mine', 'console.log("old version")');
      as(STRANGER, 'ln', '-s', path.join(shared, 'mine/node_modules'), path.join(open, 'node_modules'));
      expect(run(path.join(open, 'x.ts'))).toContain(`${open}/node_modules/tsx is not used, because ${why}`);
    }, 60_000);

    test('by doctor, which says whose it is, as loadBackend() does', () => {
      for (const folder of ['.', 'here']) plant(STRANGER, folder);
      const { findings } = JSON.parse(gradring(['doctor', '--json'])) as {
        findings: { what: string; verdict: string; words: string; details: object }[];
      };
      const found = Object.fromEntries(findings.map(({ what, ...rest }) => [what, rest]));
      const why = belongsToStranger(path.join(shared, 'here/node_modules'));
      for (const name of ['tfjs-node-gpu', 'tfjs-node']) {
        expect(found[name]).toMatchObject({
          verdict: 'warning',
          words: expect.stringMatching(`^@tensorflow/${name} is refused: .* because ${why} `) as string,
          details: { state: 'refused' },
        });
      }
      expect(found['wasm']).toMatchObject({ verdict: 'ok' });
      expect(found['A training']).toMatchObject({ details: { backend: 'wasm' } });
      expect(found['Shared memory']!.words).toContain('koffi did not install (npm install --include=optional)');
    }, 60_000);

    test('by link-tensorflow', () => {
      write(STRANGER, 'here/package.json', '{ "name": "here" }');
      const from = ['--from', write(user, 'tensorflow/lib/libtensorflow.so.2', '').replace(/\/lib\/.*/, '')];
      write(user, 'tensorflow/lib/libtensorflow_framework.so.2', '');
      write(user, 'tensorflow/include/tensorflow/c/eager/c_api.h', '');
      const here = path.join(shared, 'here');
      expect(gradring(['link-tensorflow', ...from])).toContain(`There is no package.json of yours in ${here} or above`);
      plant(STRANGER, 'here');
      const why = belongsToStranger(path.join(here, 'node_modules'));
      expect(gradring(['link-tensorflow', ...from])).toContain(`tfjs-node-gpu is not used, because ${why}`);
    }, 60_000);

    test('by way of a loader of TypeScript that the project has', () => {
      write(user, 'project/node_modules/tsx/package.json', '{ "main": "main.js" }');
      write(user, 'project/node_modules/tsx/main.js', '');
      const script = write(user, 'project/x.cts', 'console.log("compiled")');
      const settings = write(STRANGER, 'here/tsconfig.json', '{ "compilerOptions": { "paths": {} } }');
      expect(run(script)).toContain(`tsx would obey what is not yours: ${belongsToStranger(settings)}.`);
      const compiled = path.join(shared, `tsx-${user}`);
      as(STRANGER, 'mkdir', compiled);
      const elsewhere = { cwd: project, env: { TMPDIR: shared } };
      expect(run(script, elsewhere)).toContain(`tsx would obey what is not yours: ${belongsToStranger(compiled)}.`);
      as(STRANGER, 'rmdir', compiled);
      expect(run(script, elsewhere)).not.toContain('obey');
    }, 60_000);

    test('in the working directory of another host', () => {
      write(STRANGER, 'here/node_modules/gradring/dist/cli.js', STOLEN);
      const cli = path.join(project, 'node_modules/gradring/dist/cli.js');
      const ssh = write(
        user,
        'bin/ssh',
        `#!/bin/sh\nfor command; do :; done; exec sh -c "$(printf %s "$command" | sed s:${cli}:/no/such/cli.js:)"`,
      );
      chmodSync(ssh, 0o755);
      const env = { PATH: `${path.dirname(ssh)}:${process.env['PATH']}` };
      const output = gradring(['run', '-H', 'there'], { env, script: write(user, 'project/x.js', '') });
      expect(output).toContain('No rank was started.\n  there: ssh ended with code 126: ');
      expect(output).toMatch(
        /here\/node_modules\/gradring is not used, because node_modules .* belongs to another user/,
      );
    }, 60_000);
  });

  test('but the owner of gradring, and of a program, is trusted by root, who runs the code of both', () => {
    makeProject(USER);
    as(USER, 'rm', path.join(project, 'node_modules/@tensorflow/tfjs'));
    plant(USER, 'project', LOOKS_LIKE_TFJS_NODE);
    owner = 0;
    const script = write(USER, 'project/x.js', program(NAMES_BACKEND));
    const check = () => gradring(['link-tensorflow', '--check', '--package', 'tfjs-node'], { cwd: project });
    expect(check()).toMatch(/@tensorflow\/tfjs-node works: /);
    const typed = write(0, 'project/x.cts', '');
    expect(run(typed)).not.toContain('tsx is not used');
    execFileSync('chown', ['-R', '0:0', path.join(project, 'node_modules/gradring')]);
    expect(run(typed)).toContain('tsx is not used');
    expect(run(script)).toBe('runs on tfjs-node-gpu\n');
    expect(check()).toMatch(`because ${path.join(project, 'node_modules')} belongs to the user ${USER}`); // no program
    chownSync(script, 0, 0);
    expect(run(script)).toContain('runs on wasm\n');
  }, 60_000);
});

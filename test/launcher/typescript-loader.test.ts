import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { typescriptOptions } from '../../src/launcher/typescript-loader';
import { casesOf } from '../support/cases';
import { cleanUp, Program, ROOT, temporaryFolder } from './support';

afterEach(cleanUp);

const OLD = { version: 'v20.15.0', runsTypeScript: false, stripsTypes: false };
const WITH_OPTION = { version: 'v22.6.0', runsTypeScript: false, stripsTypes: true };
const NEW = { version: 'v24.0.0', runsTypeScript: true, stripsTypes: true };

/** Files in a new folder. */
function project(files: Readonly<Record<string, string>>): string {
  const folder = realpathSync(temporaryFolder());
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return folder;
}

// In the place of the packages of these names, which are no dependencies: what they make of a file lies beside it.
const TSX = {
  'node_modules/tsx/package.json': '{ "exports": { ".": "./loader.mjs" } }',
  'node_modules/tsx/loader.mjs': `
    import { register } from 'node:module';
    register('./hooks.mjs', import.meta.url);`,
  'node_modules/tsx/hooks.mjs': `
    import { readFileSync } from 'node:fs';
    import { fileURLToPath } from 'node:url';
    export async function load(url, context, next) {
      if (!/\\.m?ts$/.test(url)) return next(url, context);
      return { format: 'module', source: readFileSync(fileURLToPath(url) + '.out', 'utf8'), shortCircuit: true };
    }`,
};

const TS_NODE = {
  'node_modules/ts-node/register/index.js': `
    const { readFileSync } = require('node:fs');
    for (const extension of ['.ts', '.cts']) {
      require.extensions[extension] = (module, file) => module._compile(readFileSync(file + '.out', 'utf8'), file);
    }`,
};

const optionsIn = (folder: string, script = 'train.ts', given: string[] = [], env = {}, node = OLD): string[] =>
  typescriptOptions(path.join(folder, script), given, env, node);

describe('what Node is given', () => {
  test('nothing for JavaScript', () => {
    for (const script of ['a.js', 'a.mjs', 'a.cjs', 'a', 'a.ts.js']) expect(optionsIn('/x', script)).toEqual([]);
  });

  test.each(['a.ts', 'a.mts', 'a.cts'])('nothing or an option of its own for %s, where it can run that', script => {
    expect(optionsIn('/x', script, [], {}, NEW)).toEqual([]);
    expect(optionsIn('/x', script, [], {}, WITH_OPTION)).toEqual(['--experimental-strip-types']);
  });

  test('tsx, or else ts-node, from the folder of the script or one above it', () => {
    const both = project({ ...TSX, ...TS_NODE, 'deep/er/a': '' });
    const loader = ['--import', pathToFileURL(path.join(both, 'node_modules/tsx/loader.mjs')).href];
    for (const script of ['a.ts', 'deep/er/a.mts', 'a.cts']) expect(optionsIn(both, script)).toEqual(loader);
    const tsNode = project(TS_NODE);
    const register = ['--require', path.join(tsNode, 'node_modules/ts-node/register/index.js')];
    for (const script of ['a.ts', 'deep/a.cts']) expect(optionsIn(tsNode, script)).toEqual(register);
  });

  test('not ts-node for an ES module, which it does not load that way', () => {
    const folder = project({
      ...TS_NODE,
      'package.json': '{ "name": "p", "type": "module" }',
      'common/package.json': '{}',
    });
    expect(() => optionsIn(folder, 'a.ts')).toThrow('npm install --save-dev tsx');
    expect(() => optionsIn(folder, 'common/a.mts')).toThrow('npm install --save-dev tsx');
    expect(optionsIn(folder, 'common/a.ts')).toHaveLength(2);
    expect(optionsIn(folder, 'a.cts')).toHaveLength(2);
  });

  test.each([
    [['--import', 'tsx']],
    [['--import=tsx/esm']],
    [['-r', 'ts-node/register/transpile-only']],
    [['--require', '@swc-node/register']],
    [['--loader=ts-node/esm']],
    [['--experimental-loader', 'file:///x/node_modules/tsx/dist/loader.mjs']],
    [['--experimental-transform-types']],
    [['--experimental-strip-types']],
  ])('nothing more, if the user has said how: %j', given => {
    for (const folder of ['/x', project(TSX)]) {
      for (const node of [OLD, WITH_OPTION]) {
        expect(optionsIn(folder, 'a.ts', given, {}, node)).toEqual([]);
        expect(optionsIn(folder, 'a.ts', [], { NODE_OPTIONS: given.join(' ') }, node)).toEqual([]);
      }
    }
  });

  test('a loader, if the user has turned off what Node can do itself', () => {
    const off = ['--no-experimental-strip-types'];
    expect(optionsIn(project(TSX), 'a.ts', off, {}, NEW)).toHaveLength(2);
    expect(() => optionsIn('/x', 'a.ts', off, {}, NEW)).toThrow('is TypeScript');
  });

  test('a loader beside a module that is none, which may be one if there is no other', () => {
    const given = ['--require', '/tsx/dotenv.js', '--import=./own.mjs'];
    expect(optionsIn(project(TSX), 'a.ts', given)).toHaveLength(2);
    expect(optionsIn('/x', 'a.ts', given, {}, WITH_OPTION)).toEqual(['--experimental-strip-types']);
    expect(optionsIn('/x', 'a.ts', given)).toEqual([]);
  });

  test('if nothing can run it, an error says so', () => {
    const plugAndPlay = '--require /p/.pnp.cjs --experimental-loader file:///p/.pnp.loader.mjs';
    expect(() => optionsIn('/x', 'a.ts', [], { NODE_OPTIONS: plugAndPlay })).toThrow('no loader for it was found.');
    expect(() => optionsIn('/x', 'a.ts')).toThrow(
      '/x/a.ts is TypeScript, which Node.js v20.15.0 cannot run by itself, and no loader for it was found. Install one (npm install --save-dev tsx), or use Node.js 22.18 or newer, or compile the script to JavaScript first.',
    );
    expect(() => optionsIn('/x', 'a.ts')).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});

describe('what others may have put there', () => {
  const cwd = process.cwd();
  afterEach(() => process.chdir(cwd));

  test('above the project and in the working directory is not used', () => {
    const folder = project({ ...TSX, ...TS_NODE, 'p/package.json': '{ "name": "p" }', 'p/a.ts': '' });
    process.chdir(folder);
    expect(() => optionsIn(folder, 'p/a.ts')).toThrow('and no loader for it was found. Install one');
  });

  test('in the project is refused where everybody may write to; the other loader is used', () => {
    const folder = project({ ...TSX, ...TS_NODE, 'a.ts': '' });
    const tsx = path.join(folder, 'node_modules/tsx');
    chmodSync(tsx, 0o777);
    const register = ['--require', path.join(folder, 'node_modules/ts-node/register/index.js')];
    expect(optionsIn(folder, 'a.ts')).toEqual(register);
    const modules = path.join(folder, 'node_modules');
    expect(() => optionsIn(folder, 'a.mts')).toThrow(
      `${folder}/a.mts is TypeScript, which Node.js v20.15.0 cannot run by itself, and ${tsx} is not used, because everybody may write to ${tsx} (set NODE_PATH=${modules} if you trust it). Install one (npm install --save-dev tsx), or`,
    );
  });

  test.each([
    ['tsx', TSX, 'TSX_TSCONFIG_PATH'],
    ['ts-node', TS_NODE, 'TS_NODE_PROJECT'],
  ])('%s does not get settings that everybody may write, which may name code', (name, loader, variable) => {
    const folder = project({
      ...loader,
      'a.ts': '',
      'tsconfig.json': '{}',
      'deep/tsconfig.json': '{}',
      'deep/er/x': '',
    });
    process.chdir(path.join(folder, 'deep/er'));
    chmodSync(path.join(folder, 'tsconfig.json'), 0o666); // which is not the nearest
    expect(optionsIn(folder, 'a.ts')).toHaveLength(2);
    chmodSync(path.join(folder, 'deep/tsconfig.json'), 0o666);
    expect(() => optionsIn(folder, 'a.ts')).toThrow(
      `${folder}/a.ts is TypeScript, and ${name} would obey what is not yours: everybody may write to ${folder}/deep/tsconfig.json. Start in a folder of your own.`,
    );
    expect(optionsIn(folder, 'a.ts', [], { [variable]: 'mine.json' })).toHaveLength(2);
  });

  test('tsx does not get compiled files that everybody may write', () => {
    const folder = project({ ...TSX, 'a.ts': '' });
    const compiled = path.join(folder, `tsx-${process.getuid!()}`);
    mkdirSync(compiled);
    const env = { TMPDIR: folder };
    expect(optionsIn(folder, 'a.ts', [], env)).toHaveLength(2);
    chmodSync(compiled, 0o777);
    expect(() => optionsIn(folder, 'a.ts', [], env)).toThrow(
      `tsx would obey what is not yours: everybody may write to ${compiled}. Set TMPDIR to a folder of your own.`,
    );
    expect(optionsIn(folder, 'a.ts', [], { ...env, TSX_DISABLE_CACHE: '1' })).toHaveLength(2);
  });
});

const PROGRAM = `
  import gradring from 'gradring';
  interface Options { readonly steps: number }
  async function main({ steps }: Options): Promise<void> {
    const ring = await gradring.connect();
    const w: any = Float32Array.of(1);
    for (let step = 0; step < steps; step++) await ring.allReduce(w satisfies Float32Array);
    console.log(\`rank \${ring.rank} of \${ring.worldSize}: \${(w as Float32Array)[0]} after \${steps} steps\`);
    await ring.close();
  }
  void main({ steps: 3 });`;

/** The program without its types, as a loader makes it. */
const transformed = (source: string) =>
  source.replace(/interface .*|(: Options|: Promise<void>|: any| satisfies Float32Array| as Float32Array)/g, '');

const run = (script: string): Program =>
  new Program([path.join(ROOT, 'dist/cli.js'), 'run', '-n', '2', '--no-prefix', script], { NODE_OPTIONS: '' });

describe('gradring run', () => {
  const LOADERS = casesOf<[string, string, Record<string, string>]>(
    [['tsx', 'train.mts', TSX]],
    [['ts-node', 'train.cts', TS_NODE]],
  );

  test.each(LOADERS)(
    'two ranks run a program in TypeScript, with %s if this Node needs it: %s',
    async (_, script, loader) => {
      const source = script.endsWith('.cts')
        ? PROGRAM.replace(/import .*;/, `const gradring = require('gradring');`)
        : PROGRAM;
      const folder = project({ ...loader, [script]: source, [`${script}.out`]: transformed(source) });
      symlinkSync(ROOT, path.join(folder, 'node_modules/gradring'));
      const program = run(path.join(folder, script));
      const { exitCode } = await program.exited;
      expect({ exitCode, lines: program.stdout.split('\n').sort(), stderr: program.stderr }).toMatchObject({
        exitCode: 0,
        lines: ['', 'rank 0 of 2: 8 after 3 steps', 'rank 1 of 2: 8 after 3 steps'],
      });
    },
  );
});

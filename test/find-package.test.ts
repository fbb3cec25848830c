import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { findPackage, projectOf, refusalOf } from '../src/find-package';

// That another user's files are refused is shown by slow/other-user.test.ts, which needs root.

let root: string;

beforeEach(() => (root = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-find-')))));
afterEach(() => {
  delete process.env['NODE_PATH'];
  rmSync(root, { recursive: true });
});

/** Writes a file, and returns where. */
function write(file: string, text = ''): string {
  const whole = path.join(root, file);
  mkdirSync(path.dirname(whole), { recursive: true });
  writeFileSync(whole, text);
  return whole;
}

/** Installs a package, and returns its main file. */
function install(folder: string, name = 'loader'): string {
  const home = path.join(folder, 'node_modules', name);
  write(`${home}/package.json`, '{ "main": "lib/main.js" }');
  return write(`${home}/lib/main.js`);
}

const project = (folder: string, more: object = {}) =>
  write(`${folder}/package.json`, JSON.stringify({ name: 'p', ...more }));

const find = (...places: string[]) =>
  findPackage(
    'loader',
    places.map(place => path.join(root, place)),
  );

describe('a package is found', () => {
  test('beside the program, and above it as far as its project, the nearest first', () => {
    project('p');
    const program = write('p/src/deep/x.ts');
    const ofProject = install('p');
    expect(find('p/src/deep/x.ts')).toEqual({ file: ofProject });
    expect(findPackage('loader/lib/main.js', [program])).toEqual({ file: ofProject });
    expect(find('p/src/deep')).toEqual({ file: ofProject });
    expect(find('p/src/deep/x')).toEqual({ file: ofProject }); // as Node is given it: `node x`
    const nearer = install('p/src');
    expect(find('p/src/deep/x.ts')).toEqual({ file: nearer });
  });

  test('of a scope', () => {
    project('p');
    const main = install('p', '@scope/loader');
    expect(findPackage('@scope/loader', [write('p/x.js')])).toEqual({ file: main });
  });

  test('from the first of the places that has it', () => {
    for (const name of ['p', 'q']) project(name);
    const main = install('q');
    expect(find('p/x.js', 'q/x.js')).toEqual({ file: main });
    expect(find('p/x.js', 'r/none.js')).toEqual({});
  });

  test('through a package.json that only says what the files beside it are', () => {
    project('p');
    write('p/esm/package.json', '{ "type": "module" }');
    write('p/esm/x.js');
    const main = install('p');
    expect(find('p/esm/x.js')).toEqual({ file: main });
  });

  test('where there is no package.json at all', () => {
    write('p/src/x.js');
    const main = install('p');
    expect(find('p/src/x.js')).toEqual({ file: main });
  });

  test('beside a package that is installed, which is not the project, as gradring itself', () => {
    project('p');
    project('p/node_modules/gradring');
    write('p/node_modules/gradring/dist/x.js');
    const main = install('p');
    expect(find('p/node_modules/gradring/dist/x.js')).toEqual({ file: main });
    expect(projectOf(path.join(root, 'p/node_modules/gradring/dist'))).toBe(path.join(root, 'p'));
  });

  test('in a folder for all users, without a project', () => {
    project('lib/node_modules/gradring');
    write('lib/node_modules/gradring/dist/x.js');
    const main = install('lib');
    expect(find('lib/node_modules/gradring/dist/x.js')).toEqual({ file: main });
  });

  test.each([
    ['npm or yarn', 'package.json', '{ "workspaces": ["packages/*"] }'],
    ['pnpm', 'pnpm-workspace.yaml', 'packages: [packages/*]'],
  ])('at the root of workspaces of %s', (_, file, text) => {
    project('mono/packages/p');
    write('mono/packages/p/x.ts');
    const main = install('mono');
    expect(find('mono/packages/p/x.ts')).toEqual({});
    write(`mono/${file}`, text);
    expect(find('mono/packages/p/x.ts')).toEqual({ file: main });
    install('.');
    expect(find('mono/packages/p/x.ts')).toEqual({ file: main });
  });

  test('behind the links of pnpm, from the program and from a package in its store', () => {
    project('p');
    const main = install('p/node_modules/.pnpm/loader@1.0.0');
    symlinkSync('.pnpm/loader@1.0.0/node_modules/loader', path.join(root, 'p/node_modules/loader'));
    expect(find('p/x.js')).toEqual({ file: main });
    const other = 'p/node_modules/.pnpm/gradring@1.0.0/node_modules';
    project(`${other}/gradring`);
    write(`${other}/gradring/dist/x.js`);
    expect(find(`${other}/gradring/dist/x.js`)).toEqual({ file: main });
  });

  test('behind a link to another folder of this user, as npm link makes it', () => {
    project('p');
    const main = write('elsewhere/loader/lib/main.js');
    write('elsewhere/loader/package.json', '{ "main": "lib/main.js" }');
    mkdirSync(path.join(root, 'p/node_modules'));
    symlinkSync(path.join(root, 'elsewhere/loader'), path.join(root, 'p/node_modules/loader'));
    expect(find('p/x.js')).toEqual({ file: main });
    chmodSync(path.join(root, 'elsewhere'), 0o777);
    expect(find('p/x.js')).toMatchObject({ refused: expect.stringContaining(`to ${root}/elsewhere (`) as string });
    chmodSync(path.join(root, 'elsewhere'), 0o1777); // others may add to it, as to /tmp
    expect(find('p/x.js')).toEqual({ file: main });
  });

  test('where the program really is, which may be behind a link', () => {
    project('p');
    project('q');
    symlinkSync(write('p/x.js'), path.join(root, 'q/x.js'));
    install('q');
    expect(find('q/x.js')).toEqual({});
    const main = install('p');
    expect(find('q/x.js')).toEqual({ file: main });
  });

  test('above a folder that has only a part of it', () => {
    project('p');
    const main = install('p');
    write('p/src/node_modules/loader/README.md');
    expect(find('p/src/x.js')).toEqual({ file: main });
  });

  test('in the folders of NODE_PATH last, which the user has named', () => {
    project('p');
    write('p/x.js');
    const named = install('tools');
    chmodSync(path.dirname(named), 0o777);
    process.env['NODE_PATH'] = ['relative', path.join(root, 'tools/node_modules')].join(path.delimiter);
    expect(find('p/x.js')).toEqual({ file: named });
    const own = install('p');
    expect(find('p/x.js')).toEqual({ file: own });
  });
});

describe('a package is not looked for', () => {
  test('above the project', () => {
    install('.');
    project('p', { dependencies: {} });
    write('p/src/x.js');
    expect(find('p/src/x.js')).toEqual({});
    write('package.json', '{ "name": "outer" }'); // another project, in which this one happens to lie
    expect(find('p/src/x.js')).toEqual({});
  });

  test('in the working directory', () => {
    install('here');
    project('p');
    write('p/x.js');
    const before = process.cwd();
    process.chdir(path.join(root, 'here'));
    try {
      expect(find('p/x.js')).toEqual({});
    } finally {
      process.chdir(before);
    }
  });
});

describe('a package is refused, with what to do, where everybody may write to', () => {
  test.each([
    ['node_modules', ''],
    ['its scope', '/@scope'],
    ['its folder', '/@scope/loader'],
    ['the folder of its main file', '/@scope/loader/lib'],
    ['its main file', '/@scope/loader/lib/main.js'],
  ])('%s', (_, below) => {
    project('p');
    const main = install('p', '@scope/loader');
    const open = path.join(root, 'p/node_modules', below);
    const look = () => findPackage('@scope/loader', [path.join(root, 'p/x.js')]);
    chmodSync(open, 0o775); // who is in the same group is no stranger
    expect(look()).toEqual({ file: main });
    for (const mode of [0o777, 0o1777]) {
      chmodSync(open, mode);
      const modules = path.join(root, 'p/node_modules');
      expect(look()).toEqual({
        refused: `${modules}/@scope/loader is not used, because everybody may write to ${open} (set NODE_PATH=${modules} if you trust it)`,
      });
    }
    process.env['NODE_PATH'] = path.join(root, 'p/node_modules');
    expect(look()).toEqual({ file: main });
  });

  test('it, but not one further above', () => {
    project('p');
    const main = install('p');
    install('p/src');
    write('p/src/x.js');
    chmodSync(path.join(root, 'p/src/node_modules'), 0o777);
    expect(find('p/src/x.js')).toEqual({ file: main });
  });
});

test('a project in which everybody may write is told; nothing is told of what is not there', () => {
  project('p');
  expect(refusalOf(path.join(root, 'p'))).toBeUndefined();
  expect(refusalOf(path.join(root, 'none'))).toBeUndefined();
  chmodSync(path.join(root, 'p'), 0o1777);
  expect(refusalOf(path.join(root, 'p'))).toBe(`everybody may write to ${root}/p`);
});

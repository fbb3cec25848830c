import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

let root: string;
beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), 'gradring-rights-'));
  for (const [name, mode] of [
    ['shared', 0o750],
    ['everyones', 0o1777],
  ] as const) {
    mkdirSync(path.join(root, name));
    chmodSync(path.join(root, name), mode);
  }
  const cli = (...args: string[]) => {
    const line = [process.execPath, path.join(__dirname, '../../dist/cli.js'), ...args];
    execFileSync('sh', ['-c', 'umask 000 && exec "$@"', 'sh', ...line], { cwd: root, stdio: 'pipe' });
  };
  const program = path.join(__dirname, 'fixtures/file-rights.js');
  cli('run', '-n', '2', '--output-dir', 'logs', '--timeline', 'trace', program);
  cli('timeline', 'merge', 'trace');
}, 60_000);
afterAll(() => rmSync(root, { recursive: true }));

/** The modes of all files, and of all folders, in a folder, and how many there are. */
function modesIn(folder: string) {
  const all = readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' });
  const found = all.map(name => statSync(path.join(root, folder, name)));
  const modesOf = (stats: typeof found) => [...new Set(stats.map(({ mode }) => (mode & 0o777).toString(8)))];
  const files = found.filter(each => each.isFile());
  return { files: modesOf(files), folders: modesOf(found.filter(each => each.isDirectory())), count: files.length };
}

test.each([
  ['runs', 4],
  ['logs', 2],
  ['trace', 3],
])('%s, which gradring makes, is for the user alone, under a umask of 000', (folder, count) => {
  expect((statSync(path.join(root, folder)).mode & 0o777).toString(8)).toBe('700');
  expect(modesIn(folder)).toEqual({ files: ['600'], folders: folder === 'runs' ? ['700'] : [], count });
});

test('a folder that the user has made gives its rights to what is written in it, and keeps them', () => {
  expect(modesIn('shared')).toEqual({ files: ['640'], folders: ['750'], count: 4 });
  expect((statSync(path.join(root, 'shared')).mode & 0o777).toString(8)).toBe('750');
});

test('a folder of everyone’s does not', () => {
  expect(modesIn('everyones')).toEqual({ files: ['600'], folders: ['700'], count: 4 });
});

test('a saved model follows the umask, but only its group may write', () => {
  expect(modesIn('model')).toEqual({ files: ['664'], folders: [], count: 2 });
});

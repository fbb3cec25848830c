import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { DOC_PAGES, readPage } from '../support/doc-pages';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');

interface Program {
  readonly title: string;
  readonly source: string;
  /** What the page says that it prints, and on which numbers of ranks. */
  readonly prints: string | undefined;
  readonly ranks: readonly number[];
}

/** The blocks fenced ```js of a page: in the README all of them, elsewhere those that say `// runnable`. */
function programsOf(page: string): Program[] {
  const text = readPage(page);
  return [...text.matchAll(/^```js\n(.*?)^```$(?:\n\n([^\n]* it prints\b[^\n]*:)\n\n```text\n(.*?)^```$)?/gms)]
    .map(({ 1: source, 2: words, 3: prints, index }) => {
      const line = text.slice(0, index).split('\n').length + 1;
      const ranks = words?.startsWith('On three ranks') ? [3] : [1, 2, 3];
      return { title: `${page}:${line}`, source: source!, prints, ranks };
    })
    .filter(({ source }) => page === 'README.md' || /^\/\/ runnable\b/.test(source));
}

const PROGRAMS = DOC_PAGES.flatMap(programsOf);

/**
 * Runs programs one after the other in one process, each when the one before has nothing left to do. Prints the file of
 * each that has ended. A program that fails ends the process.
 */
const DRIVER = `
const files = process.argv.slice(2);
let running;
process.on('beforeExit', () => {
  if (running !== undefined) process.stdout.write('\\nended: ' + running + '\\n');
  running = files.shift();
  if (running === undefined) return;
  require('@tensorflow/tfjs').disposeVariables(); // their names would be taken
  setImmediate(() => require(running)); // what begins within this event may be cut off
});
`;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-docs-'));
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(ROOT, path.join(folder, 'node_modules/gradring'), 'dir');
  symlinkSync(path.join(ROOT, 'node_modules/@tensorflow'), path.join(folder, 'node_modules/@tensorflow'), 'dir');
  writeFileSync(path.join(folder, 'driver.js'), DRIVER);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the README shows a program', () => {
  expect(programsOf('README.md').length).toBeGreaterThan(0);
});

test('pages say what their programs print', () => {
  const pages = PROGRAMS.filter(({ prints }) => prints !== undefined).map(({ title }) => title.split(':')[0]);
  const [data, save] = ['docs/how-to/data.md', 'docs/how-to/save-and-resume.md'];
  expect(pages).toEqual([data, data, data, 'docs/how-to/model-fit.md', save, save, 'docs/reference/api.md']);
});

test('only the fences that are known to this test are used for JavaScript', () => {
  for (const page of DOC_PAGES) {
    expect(readPage(page)).not.toMatch(/^```(javascript|mjs|cjs|node)\b/im);
  }
});

// A process has one backend.
const onAny = PROGRAMS.filter(({ source }) => source.includes('loadBackend()'));
const onCpu = PROGRAMS.filter(program => !onAny.includes(program));

test.each([
  ['that ask for the cpu backend, or for none', onCpu, [1, 2, 3]],
  ['that take any backend', onAny, [1, 2]],
])('the programs of the docs %s run on any number of ranks', async (_, programs, sizes) => {
  expect(programs).not.toEqual([]);
  const files = programs.map(({ title, source }) => {
    const file = path.join(folder, `${title.replace(/\W+/g, '-')}.js`);
    writeFileSync(file, source);
    return file;
  });
  const env = { ...process.env, TMPDIR: folder };
  /** What each rank has printed, program by program. Rejects, with all that was written, unless the exit code is 0. */
  const run = async (ranks: number) => {
    const args = ranks === 1 ? [] : [CLI, 'run', '-n', String(ranks)];
    const where = { cwd: folder, env, timeout: 180_000 };
    const { stdout } = await promisify(execFile)(process.execPath, [...args, 'driver.js', ...files], where);
    const ofRank = (rank: number) =>
      ranks === 1 ? stdout : stdout.replace(/^(?:\[(\d)\] )?(.*\n)/gm, (_, by, line) => (by === `${rank}` ? line : ''));
    return Array.from({ length: ranks }, (_, rank) => ofRank(rank).split(/^ended: (.*)\n/m));
  };
  const runs = await Promise.all(sizes.map(run));
  runs.forEach((byRank, i) => {
    for (const printed of byRank) expect(printed.filter((_, at) => at % 2 === 1)).toEqual(files);
    programs.forEach(({ title, prints, ranks }, at) => {
      if (prints === undefined || !ranks.includes(sizes[i]!)) return;
      expect({ title, prints: byRank[0]![2 * at]!.trim() }).toEqual({ title, prints: prints.trim() });
    });
  });
}, 200_000); // prettier-ignore

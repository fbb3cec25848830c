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
}

/** The blocks fenced ```js of a page: in the README all of them, elsewhere those that say `// runnable`. */
function programsOf(page: string): Program[] {
  const text = readPage(page);
  return [...text.matchAll(/^```js\n(.*?)^```$/gms)]
    .map(({ 1: source, index }) => {
      const line = text.slice(0, index).split('\n').length + 1;
      return { title: `${page}:${line}`, source: source! };
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

test('only the fences that are known to this test are used for JavaScript', () => {
  for (const page of DOC_PAGES) {
    expect(readPage(page)).not.toMatch(/^```(javascript|mjs|cjs|node)\b/im);
  }
});

// A process has one backend.
const onCpu = PROGRAMS.filter(({ source }) => source.includes("backend: 'cpu'"));
const onAny = PROGRAMS.filter(program => !onCpu.includes(program));

test.each([
  ['that ask for the cpu backend', onCpu],
  ['that take any backend', onAny],
])('the programs of the docs %s run alone and on two ranks', async (_, programs) => {
  expect(programs).not.toEqual([]);
  const files = programs.map(({ title, source }) => {
    const file = path.join(folder, `${title.replace(/\W+/g, '-')}.js`);
    writeFileSync(file, source);
    return file;
  });
  const env = { ...process.env, TMPDIR: folder };
  // Rejects, with all that was written, unless the exit code is 0.
  const run = async (...args: string[]) => {
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env, timeout: 50_000 });
    return [...stdout.matchAll(/^(\[\d\] )?ended: (.*)$/gm)].map(([, rank, file]) => `${rank ?? ''}${file}`);
  };
  const [alone, two] = await Promise.all([
    run('driver.js', ...files),
    run(CLI, 'run', '-n', '2', 'driver.js', ...files),
  ]);
  expect(alone).toEqual(files);
  expect(two.sort()).toEqual(files.flatMap(file => [`[0] ${file}`, `[1] ${file}`]).sort());
});

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

/** The blocks fenced ```js of a Markdown file, in the README all of them, elsewhere those that say `// runnable`. */
function programsOf(file: string): Program[] {
  const text = readPage(file);
  return [...text.matchAll(/^```js\n(.*?)^```$/gms)]
    .map(({ 1: source, index }) => {
      const line = text.slice(0, index).split('\n').length + 1;
      return { title: `${file}:${line}`, source: source! };
    })
    .filter(({ source }) => file === 'README.md' || /^\/\/ runnable\b/.test(source));
}

const readme = programsOf('README.md');
const programs = DOC_PAGES.flatMap(programsOf);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-docs-'));
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(ROOT, path.join(folder, 'node_modules/gradring'), 'dir');
  symlinkSync(path.join(ROOT, 'node_modules/@tensorflow'), path.join(folder, 'node_modules/@tensorflow'), 'dir');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the README shows a program', () => {
  expect(readme.length).toBeGreaterThan(0);
});

test('only the fences that are known to this test are used for JavaScript', () => {
  for (const page of DOC_PAGES) {
    expect(readPage(page)).not.toMatch(/^```(javascript|mjs|cjs|node)\b/im);
  }
});

test.each(programs.map(({ title, source }) => [title, source]))(
  '%s runs alone and on two ranks',
  async (title, source) => {
    const extension = /^import\s/m.test(source) ? 'mjs' : 'js';
    const program = path.join(folder, `${title.replace(/\W+/g, '-')}.${extension}`);
    writeFileSync(program, source);
    const env = { ...process.env, TMPDIR: folder };
    // Rejects, with all that was written, unless the exit code is 0.
    const run = (...args: string[]) =>
      promisify(execFile)(process.execPath, args, { cwd: folder, env, timeout: 50_000 });
    await Promise.all([run(program), run(CLI, 'run', '-n', '2', program)]);
  },
);

import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');

/** What is built, but for the notes of the builders. */
const filesOf = (root: string) =>
  (readdirSync(path.join(root, 'dist'), { recursive: true }) as string[])
    .filter(name => !/^\.(tsbuildinfo|gradring-built)$/.test(name))
    .sort();

test('a package that is built from nothing, as `npm pack` builds it, has what was built here', () => {
  const copy = mkdtempSync(path.join(tmpdir(), 'gradring-build-'));
  try {
    for (const name of ['package.json', 'tsconfig.json', 'src', 'schemas', 'scripts'])
      cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true });
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
    execFileSync(process.execPath, ['scripts/build.js', '--clean'], { cwd: copy });
    const built = filesOf(copy);
    expect(built).toEqual(expect.arrayContaining(['index.js', 'index.d.ts', 'cli.js', 'kernels/kernels.wasm']));
    expect(filesOf(ROOT)).toEqual(expect.arrayContaining(built)); // which may have some of former sources, too
  } finally {
    rmSync(copy, { recursive: true });
  }
}, 120_000);

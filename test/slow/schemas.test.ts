import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');
const check = (root: string) =>
  spawnSync(process.execPath, [path.join(root, 'scripts/schemas.js'), '--check'], { encoding: 'utf8' });

describe('the check of the generated code', () => {
  let copy: string;
  const generated = (name: string) => path.join(copy, 'src/wire/generated', name);

  beforeEach(() => {
    copy = mkdtempSync(path.join(os.tmpdir(), 'gradring-schemas-'));
    for (const part of ['scripts/schemas.js', 'schemas', 'src/wire/generated', 'package.json']) {
      cpSync(path.join(ROOT, part), path.join(copy, part), { recursive: true });
    }
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
  });
  afterEach(() => rmSync(copy, { recursive: true, force: true }));

  test.each([
    ['an altered file', () => appendFileSync(generated('frame.ts'), '\n'), 'frame.ts'],
    ['a missing file', () => unlinkSync(generated('mail.ts')), 'mail.ts'],
    ['a stray file', () => writeFileSync(generated('stray.ts'), ''), 'stray.ts (no schema makes it)'],
    ['an altered schema', () => appendFileSync(path.join(copy, 'schemas/frame.fbs'), 'enum E : ubyte { A }'), 'e.ts'],
  ])('fails for %s, and names it', (_, alter, name) => {
    alter();
    const { status, stderr } = check(copy);
    expect(status).toBe(1);
    expect(stderr).toContain(name);
  });
});

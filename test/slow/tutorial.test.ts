import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { readPage } from '../support/doc-pages';

/** The tutorial as it is printed: each of its commands, in a project that has gradring. */

const ROOT = path.join(__dirname, '../..');

/** A section's commands, and the lines of output that follow each. */
interface Step {
  readonly commands: readonly string[];
  readonly printed: readonly string[];
}

const page = readPage('docs/tutorial.md');

function stepsOf(heading: string): Step[] {
  const section = page.slice(page.indexOf(`\n## ${heading}\n`)).split('\n## ', 2)[1]!;
  const steps: Step[] = [];
  for (const [, kind, text] of section.matchAll(/^```(sh|text)\n(.*?)^```$/gms)) {
    const lines = text!.trimEnd().split('\n');
    if (kind === 'sh') steps.push({ commands: lines, printed: [] });
    else steps.push({ commands: steps.pop()!.commands, printed: lines.filter(line => line !== '…') });
  }
  return steps;
}

/** A program with the change that a block of the page shows. */
function changed(program: string): string {
  const [, diff] = /^```diff\n(.*?)^```$/ms.exec(page)!;
  const [before, after] = ['+', '-'].map(left =>
    diff!
      .split('\n')
      .filter(line => !line.startsWith(left))
      .map(line => line.slice(1))
      .join('\n'),
  ) as [string, string];
  expect(program).toContain(before);
  return program.replace(before, () => after);
}

/** What differs from run to run: losses, hashes, ratios, process ids, times, and what the page leaves out. */
function patternOf(line: string): RegExp {
  const escaped = line.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  const general = escaped
    .replace(/loss \d+\\\.\d+/, String.raw`loss \d+\.\d+`)
    .replace(/weights [\da-f]{8}/, 'weights [\\da-f]{8}')
    .replace(/\d+\\\.\d times fewer/, String.raw`\d+\.\d times fewer`)
    .replace(/pid \d+/, String.raw`pid \d+`)
    .replace(/after \d+\\\.\d s/, String.raw`after \d+\.\d s`)
    .replace('…', '.*');
  return new RegExp(`^${general}$`, 'm');
}

let project: string;
const train = () => path.join(project, 'train.js');

beforeAll(() => {
  project = mkdtempSync(path.join(tmpdir(), 'gradring-tutorial-'));
  const modules = path.join(project, 'node_modules');
  mkdirSync(path.join(modules, '.bin'), { recursive: true });
  symlinkSync(ROOT, path.join(modules, 'gradring'), 'dir');
  symlinkSync(path.join(ROOT, 'node_modules/@tensorflow'), path.join(modules, '@tensorflow'), 'dir');
  symlinkSync('../gradring/dist/cli.js', path.join(modules, '.bin/gradring'));
  writeFileSync(path.join(project, 'package.json'), '{}');
  writeFileSync(train(), /^```js\n(.*?)^```$/ms.exec(page)![1]!);
});
afterAll(() => rmSync(project, { recursive: true }));

async function run(command: string): Promise<{ output: string; exitCode: number }> {
  try {
    const { stdout, stderr } = await promisify(execFile)('sh', ['-c', command], { cwd: project });
    return { output: stdout + stderr, exitCode: 0 };
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
    return { output: stdout + stderr, exitCode: code };
  }
}

test.each([
  ['2. A model in one process', [0]],
  ['3. Four ranks', [0]],
  ['4. Lose a rank', [137, 0]],
  ['5. Look inside', [0]],
])(
  '%s',
  async (heading, exitCodes) => {
    const steps = stepsOf(heading);
    expect(steps).toHaveLength(exitCodes.length);
    if (heading.startsWith('4')) writeFileSync(train(), changed(readFileSync(train(), 'utf8')));
    for (const [i, { commands, printed }] of steps.entries()) {
      const outputs: string[] = [];
      for (const command of commands) {
        const { output, exitCode } = await run(command);
        outputs.push(output);
        expect({ command, exitCode, output: exitCode === exitCodes[i] ? '' : output }).toEqual({
          ...{ command, exitCode: exitCodes[i], output: '' },
        });
      }
      for (const line of printed) expect(outputs.join('\n')).toMatch(patternOf(line));
      const hashes = outputs.join('\n').match(/weights [\da-f]{8}/g) ?? [];
      expect(new Set(hashes).size).toBeLessThanOrEqual(1);
      if (heading.startsWith('4') && exitCodes[i] === 0) expect(hashes).toHaveLength(4);
    }
  },
  300_000,
);

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Finding } from '../../src/doctor/finding';

const MODULE = path.join(__dirname, '../../dist/doctor/tensorflow-copies.js');
const OWN = path.dirname(require.resolve('@tensorflow/tfjs/package.json'));
const { version: VERSION } = JSON.parse(readFileSync(path.join(OWN, 'package.json'), 'utf8')) as { version: string };

/** A project that has other packages than this checkout. */
let project: string;

beforeEach(() => (project = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-copies-')))));
afterEach(() => rmSync(project, { recursive: true }));

/** @param where The folder of `node_modules`, in the project. */
function install(name: string, version: string, where = '.'): string {
  const directory = path.join(project, where, 'node_modules', name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify({ name, version }));
  return directory;
}

/** What is found in the project, by a program of its own: Jest has its own way to resolve packages. */
function finding(): Finding {
  const program = `console.log(JSON.stringify(require(${JSON.stringify(MODULE)}).tensorFlowFinding()))`;
  const { stdout } = spawnSync(process.execPath, ['-e', program], { cwd: project, encoding: 'utf8' });
  return JSON.parse(stdout) as Finding;
}

test('a project without TensorFlow.js has one copy', () => {
  expect(finding()).toMatchObject({ what: 'TensorFlow.js', verdict: 'ok', words: `${VERSION}, one copy (${OWN})` });
});

test('a project that shares the copy of gradring has one', () => {
  mkdirSync(path.join(project, 'node_modules'));
  symlinkSync(path.dirname(OWN), path.join(project, 'node_modules/@tensorflow'), 'dir');
  expect(finding()).toMatchObject({ verdict: 'ok' });
});

test('another copy in the project is a problem, with both paths and what to do', () => {
  const theirs = install('@tensorflow/tfjs', '4.20.0');
  install('@tensorflow/tfjs-core', '4.20.0');
  const { verdict, words } = finding();
  expect(verdict).toBe('problem');
  expect(words).toBe(
    `2 copies, which do not work together: gradring loads @tensorflow/tfjs ${VERSION} (${OWN}), ` +
      `this project loads @tensorflow/tfjs 4.20.0 (${theirs}); ` +
      `run npm install @tensorflow/tfjs@${VERSION}, and npm dedupe if that does not help, or use the tf of loadBackend()`,
  );
});

test('another copy of the core alone is a problem, too, and so is one of the same version', () => {
  const theirs = install('@tensorflow/tfjs-core', VERSION);
  const { verdict, words } = finding();
  expect(verdict).toBe('problem');
  expect(words).toContain(`this project loads @tensorflow/tfjs-core ${VERSION} (${theirs})`);
  expect(words).toContain(`run npm install @tensorflow/tfjs-core@${VERSION}, and npm dedupe`);
});

test('a copy that tfjs-node brings is a problem', () => {
  install('@tensorflow/tfjs-node', '4.20.0');
  const theirs = install('@tensorflow/tfjs', '4.20.0', 'node_modules/@tensorflow/tfjs-node');
  const { verdict, words } = finding();
  expect(verdict).toBe('problem');
  expect(words).toContain(`@tensorflow/tfjs-node loads @tensorflow/tfjs 4.20.0 (${theirs})`);
  expect(words).toContain(`npm install @tensorflow/tfjs@${VERSION} @tensorflow/tfjs-node@${VERSION}, and npm dedupe`);
  expect(words).not.toContain('loadBackend');
});

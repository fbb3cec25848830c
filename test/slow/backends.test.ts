import { execFile } from 'node:child_process';
import { lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { checkLink } from '../../src/native-tensorflow/link-tensorflow';
import type { PackageName } from '../../src/native-tensorflow/npm-package';
import { testWhere } from '../support/test-where';
import { libraryObstacle } from './support/installed';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');
const JEST = path.join(ROOT, 'node_modules/jest/bin/jest.js');

/** What trains, in real rings, with the operations of a backend. The others there try what belongs to one backend. */
const TRAINING_TESTS = ['training', 'dense-equivalence', 'ring-optimizer', 'checkpoint'];

async function inRoot(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, TEST_CASES: undefined, XDG_CACHE_HOME: cache, ...env },
  });
}

/** Where a TensorFlow is fetched to, once for all tests. */
const cache = mkdtempSync(path.join(tmpdir(), 'gradring-backends-'));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

/** What a test has linked, to be undone after it. */
let unlink: PackageName | undefined;

/** Links a native backend to a TensorFlow that is here or that pip can fetch, unless it works already. */
async function provide(name: PackageName): Promise<void> {
  const { state } = await checkLink(name);
  if (state === 'installed' || state === 'linked') return;
  unlink = name;
  await inRoot([CLI, 'link-tensorflow', '--package', name]);
}

afterEach(async () => {
  if (unlink !== undefined) await inRoot([CLI, 'link-tensorflow', '--package', unlink, '--undo']);
  unlink = undefined;
});

/** Why there can be no native backend here. */
const obstacle = lstatSync(path.join(ROOT, 'node_modules')).isSymbolicLink()
  ? 'node_modules is that of another checkout'
  : libraryObstacle();

describe.each([
  ['wasm', TRAINING_TESTS],
  ['tfjs-node-gpu', TRAINING_TESTS],
  ['tfjs-node', ['dense-equivalence']], // the same binding as the one before, without a GPU
] as const)('%s', (backend, names) => {
  testWhere(backend === 'wasm' ? undefined : obstacle, false)(
    `the training tests pass on ${backend}`,
    async () => {
      if (backend !== 'wasm') await provide(backend);
      const files = names.map(name => `test/tensorflow/${name}\\.test`);
      const { stderr } = await inRoot([JEST, ...files], { TEST_BACKEND: backend });
      expect(stderr).toMatch(new RegExp(`Test Suites: ${files.length} passed, ${files.length} total`));
      if (names !== TRAINING_TESTS) return;
      const checkpoints = [JEST, '--config', 'jest.slow.config.js', 'test/slow/(resized-)?checkpoint\\.test'];
      expect((await inRoot(checkpoints, { TEST_BACKEND: backend })).stderr).toMatch('Test Suites: 2 passed, 2 total');
    },
    900_000,
  );
});

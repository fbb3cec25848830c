import { execFile } from 'node:child_process';
import { lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { checkLink } from '../../src/native-tensorflow/link-tensorflow';
import type { PackageName } from '../../src/native-tensorflow/npm-package';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');
const JEST = path.join(ROOT, 'node_modules/jest/bin/jest.js');

/** What trains, in real rings. The others there try what belongs to one backend. */
const TRAINING_TESTS = ['training', 'dense-equivalence', 'compression-reference', 'ring-optimizer', 'checkpoint'];

async function inRoot(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, XDG_CACHE_HOME: cache, ...env },
  });
}

/** Where a TensorFlow is fetched to, once for all tests. */
const cache = mkdtempSync(path.join(tmpdir(), 'gradring-backends-'));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

/** What a test has linked, to be undone after it. */
let unlink: PackageName | undefined;

/** Whether a native backend is there, if need be by linking it to a TensorFlow that is here or that pip can fetch. */
async function isPresent(name: PackageName): Promise<boolean> {
  const { state } = await checkLink(name);
  if (state === 'installed' || state === 'linked') return true;
  if (lstatSync(path.join(ROOT, 'node_modules')).isSymbolicLink()) return false; // it is not ours to change
  try {
    await inRoot([CLI, 'link-tensorflow', '--package', name]);
    unlink = name;
    return true;
  } catch (error) {
    const { stderr } = error as { stderr: string };
    if (!/none can be fetched|npm cannot install|ENOTFOUND|EAI_AGAIN/.test(stderr)) throw error;
    return false;
  }
}

afterEach(async () => {
  if (unlink !== undefined) await inRoot([CLI, 'link-tensorflow', '--package', unlink, '--undo']);
  unlink = undefined;
});

test.each([
  ['wasm', TRAINING_TESTS],
  ['tfjs-node-gpu', TRAINING_TESTS],
  ['tfjs-node', ['training', 'dense-equivalence']], // the same binding as the one before, without a GPU
] as const)(
  'the training tests pass on %s',
  async (backend, names) => {
    if (backend !== 'wasm' && !(await isPresent(backend))) {
      console.warn(`Passed over: ${backend} is not here, and no TensorFlow that it could be linked to.`);
      return;
    }
    const files = names.map(name => `test/tensorflow/${name}\\.test`);
    const { stderr } = await inRoot([JEST, ...files], { TEST_BACKEND: backend });
    expect(stderr).toMatch(new RegExp(`Test Suites: ${files.length} passed, ${files.length} total`));
  },
  900_000,
);

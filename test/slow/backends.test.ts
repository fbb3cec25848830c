import { lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkLink } from '../../src/native-tensorflow/link-tensorflow';
import type { PackageName } from '../../src/native-tensorflow/npm-package';
import { testWhere } from '../support/test-where';
import { libraryObstacle, sharedCache } from './support/installed';
import { expectAllTraining, expectTraining, inRoot } from './support/training-tests';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-backends-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const env: NodeJS.ProcessEnv = { XDG_CACHE_HOME: sharedCache(folder) };

/** What a test has linked, to be undone after it. */
let unlink: PackageName | undefined;

/** Links a native backend to a TensorFlow that is here or that pip can fetch, unless it works already. */
async function provide(name: PackageName): Promise<void> {
  const { state } = await checkLink(name);
  if (state === 'installed' || state === 'linked') return;
  unlink = name;
  await inRoot([CLI, 'link-tensorflow', '--package', name], env);
}

afterEach(async () => {
  if (unlink !== undefined) await inRoot([CLI, 'link-tensorflow', '--package', unlink, '--undo'], env);
  unlink = undefined;
});

/** Why there can be no native backend here. */
const obstacle = lstatSync(path.join(ROOT, 'node_modules')).isSymbolicLink()
  ? 'node_modules is that of another checkout'
  : libraryObstacle();
const testNative = testWhere(obstacle, false);

testNative(
  'the training tests pass on tfjs-node-gpu',
  async () => {
    await provide('tfjs-node-gpu');
    await expectAllTraining('tfjs-node-gpu', env);
  },
  900_000,
);

testNative(
  'a ring without compression trains as one process on tfjs-node, the same binding without a GPU',
  async () => {
    await provide('tfjs-node');
    await expectTraining('tfjs-node', ['dense-equivalence'], env);
  },
  600_000,
);

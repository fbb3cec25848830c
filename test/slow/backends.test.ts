import { lstatSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkLink } from '../../src/native-tensorflow/link-tensorflow';
import { testWhere } from '../support/test-where';
import { libraryObstacle, sharedCache } from './support/installed';
import { expectAllTraining, inRoot } from './support/training-tests';

const ROOT = path.join(__dirname, '../..');
const CLI = path.join(ROOT, 'dist/cli.js');

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-backends-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const env: NodeJS.ProcessEnv = { XDG_CACHE_HOME: sharedCache(folder) };

const NAME = 'tfjs-node-gpu';

/** Whether the test has linked it, which is then undone. */
let isLinkedHere = false;

/** Links the native backend to a TensorFlow that is here or that pip can fetch, unless it works already. */
async function provide(): Promise<void> {
  const { state } = await checkLink(NAME);
  if (state === 'installed' || state === 'linked') return;
  isLinkedHere = true;
  await inRoot([CLI, 'link-tensorflow', '--package', NAME], env);
}

afterEach(async () => {
  if (isLinkedHere) await inRoot([CLI, 'link-tensorflow', '--package', NAME, '--undo'], env);
});

/** Why there can be no native backend here. */
const obstacle = lstatSync(path.join(ROOT, 'node_modules')).isSymbolicLink()
  ? 'node_modules is that of another checkout'
  : libraryObstacle();

// link-tensorflow.test.ts links and trains tfjs-node, the same binding without a GPU.
testWhere(obstacle, false)(
  `the training tests pass on ${NAME}`,
  async () => {
    await provide();
    await expectAllTraining(NAME, env);
  },
  900_000,
);

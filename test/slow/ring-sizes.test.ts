import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.join(__dirname, '../..');
const JEST = path.join(ROOT, 'node_modules/jest/bin/jest.js');

/** What is tested in rings of two ranks where there is less time. */
const FILES = [
  ...['accumulate', 'background', 'best', 'evaluate', 'local-steps', 'overlap', 'per-host', 'reshuffle'],
  ...['sync-batch-norm', 'tensor-collectives', 'uneven'],
].map(name => `test/tensorflow/${name}\\.test`);
const ALL = [...FILES, 'test/core/core\\.test'];

test('rings of one, two and three ranks train alike', async () => {
  const options = { cwd: ROOT, env: { ...process.env, TEST_RING_SIZES: '1,2,3' }, maxBuffer: 2 ** 26 };
  const { stderr } = await promisify(execFile)(process.execPath, [JEST, '--maxWorkers=1', ...ALL], options);
  expect(stderr).toMatch(`Test Suites: ${ALL.length} passed, ${ALL.length} total`);
}, 900_000);

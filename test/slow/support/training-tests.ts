import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.join(__dirname, '../../..');
const JEST = path.join(ROOT, 'node_modules/jest/bin/jest.js');

/** Runs a program of Node.js in this checkout, as `npm test` would. */
export async function inRoot(args: readonly string[], env: NodeJS.ProcessEnv): Promise<{ stderr: string }> {
  const options = { cwd: ROOT, env: { ...process.env, TEST_CASES: undefined, ...env } };
  return promisify(execFile)(process.execPath, args, options);
}

/** Tests of what trains, in real rings, with the operations of another backend than cpu, which `npm test` takes. */
export async function expectTraining(
  backend: string,
  names: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  const files = names.map(name => `test/tensorflow/${name}\\.test`);
  const { stderr } = await inRoot([JEST, ...files], { ...env, TEST_BACKEND: backend });
  expect(stderr).toMatch(new RegExp(`Test Suites: ${files.length} passed, ${files.length} total`));
}

/** All of these tests, and those of checkpoints. */
export async function expectAllTraining(backend: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  await expectTraining(backend, ['training', 'dense-equivalence', 'ring-optimizer', 'checkpoint'], env);
  const args = [JEST, '--config', 'jest.slow.config.js', 'test/slow/(resized-)?checkpoint\\.test'];
  const { stderr } = await inRoot(args, { ...env, TEST_BACKEND: backend });
  expect(stderr).toMatch('Test Suites: 2 passed, 2 total');
}

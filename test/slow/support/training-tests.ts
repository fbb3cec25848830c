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

/**
 * Tests of what trains, in real rings, and of checkpoints, with the operations of another backend than cpu, which
 * `npm test` takes.
 */
export async function expectAllTraining(backend: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const names = ['training', 'dense-equivalence', 'ring-optimizer', 'checkpoint'];
  const runs = [
    { args: names.map(name => `test/tensorflow/${name}\\.test`), count: names.length },
    { args: ['--config', 'jest.slow.config.js', 'test/slow/(resized-)?checkpoint\\.test'], count: 2 },
  ];
  for (const { args, count } of runs) {
    const { stderr } = await inRoot([JEST, ...args], { ...env, TEST_BACKEND: backend });
    expect(stderr).toMatch(`Test Suites: ${count} passed, ${count} total`);
  }
}

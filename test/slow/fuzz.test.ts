import { runScript } from '../support/scripts';

test.each([
  ['the decoders', ['--inputs', '30000', '--seed', '1']],
  ['the plain twin of the kernels', ['--inputs', '10000', '--target', 'gradient-payload-twins']],
])('fuzzing finds nothing in %s', async (_, args) => {
  const { exitCode, stdout } = await runScript('fuzz', ...args);
  expect(stdout).not.toMatch(/CRASH/);
  expect(exitCode).toBe(0);
}, 300_000); // prettier-ignore

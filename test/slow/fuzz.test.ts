import { runScript } from '../support/scripts';

/** All that bytes from outside come to. */
const TARGETS = [
  ...['gradient-payload', 'chunk', 'compressor-messages', 'frame', 'rendezvous', 'safetensors', 'manifest'],
  ...['environment', 'names', 'timeline', 'shared-queue', 'stream', 'agent-message', 'unit-report'],
];

test('fuzzing finds nothing in the decoders', async () => {
  const { exitCode, stdout } = await runScript('fuzz', '--inputs', '15000', '--seed', '1');
  expect(stdout).not.toMatch(/CRASH/);
  expect(exitCode).toBe(0);
  for (const target of TARGETS) {
    expect(stdout).toMatch(new RegExp(`${target}, seed 1: 15000 inputs, [1-9][0-9]+ accepted`));
  }
}, 300_000);

test('fuzzing finds that the plain twin of the kernels decodes and refuses the same', async () => {
  const { exitCode, stdout } = await runScript('fuzz', '--inputs', '5000', '--target', 'gradient-payload-twins');
  expect(stdout).not.toMatch(/CRASH/);
  expect(exitCode).toBe(0);
}, 300_000);

import { runScript } from '../support/scripts';

test('four thousand steps take no more memory, and leave the replicas the same', async () => {
  const { stdout, exitCode } = await runScript('soak', '--steps', '4000');
  expect(stdout).toMatch(/\nWeights: [0-9a-f]{64}, compared 4 times\.\nMemory is flat, the replicas are the same\.\n$/);
  expect(exitCode).toBe(0);
}, 600_000);

test('a rank that keeps something of each step is found', async () => {
  const { stdout, exitCode } = await runScript('soak', '--steps', '400', '--ranks', '2', '--leak', '500000');
  expect(stdout).toMatch(/\nrank 0: rss grew from \d+ to \d+\nrank 0: external grew from /);
  expect(exitCode).toBe(1);
}, 300_000);

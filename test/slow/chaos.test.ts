import { runScript } from '../support/scripts';

test('sixty runs in which something goes wrong break no promise', async () => {
  const { stdout, stderr, exitCode } = await runScript('chaos', '--runs', '60', '--seed', '2', '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ runs: 60, failures: [] });
  expect(exitCode).toBe(0);
}, 900_000);

import { runScript } from '../support/scripts';

test('forty runs in which something goes wrong break no promise', async () => {
  const { stdout, stderr, exitCode } = await runScript('chaos', '--runs', '40', '--seed', '2', '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ runs: 40, failures: [] });
  expect(exitCode).toBe(0);
}, 900_000);

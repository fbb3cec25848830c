import { runScript } from '../support/scripts';

test.each([
  [10, 1],
  [10, 2],
])('%i runs of seed %i, in which something goes wrong, break no promise', async (runs, seed) => {
  const options = ['--runs', `${runs}`, '--seed', `${seed}`, '--parallel', '2', '--json'];
  const { stdout, stderr, exitCode } = await runScript('chaos', ...options);
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ runs, failures: [] });
  expect(exitCode).toBe(0);
}, 900_000); // prettier-ignore

import { runScript } from '../support/scripts';

test.each([
  [14, 1],
  [24, 2],
])('%i runs of seed %i, in which something goes wrong, break no promise', async (runs, seed) => {
  const { stdout, stderr, exitCode } = await runScript('chaos', '--runs', `${runs}`, '--seed', `${seed}`, '--json');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ runs, failures: [] });
  expect(exitCode).toBe(0);
}, 900_000); // prettier-ignore

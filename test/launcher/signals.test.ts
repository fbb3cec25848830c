import { cleanUp, gradring, isRunning, SAY_READY, script, waitUntil } from './support';
import { casesOf } from '../support/cases';

afterEach(cleanUp);

const SIGNALS = casesOf<['SIGINT' | 'SIGTERM' | 'SIGHUP', number]>(
  [['SIGTERM', 143]],
  [
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ],
);

test.each(SIGNALS)(
  '%s is passed on to ranks that lead groups of their own, and the exit code says so',
  async (signal, code) => {
    const file = script(`setInterval(() => {}, 1000); ${SAY_READY}`);
    const launcher = gradring('run', '-n', '2', file);
    const pids = await launcher.readyRanks(2);
    // A terminal does not signal them.
    for (const pid of pids) expect(() => process.kill(-pid, 0)).not.toThrow();
    launcher.child.kill(signal);
    expect(await launcher.exited).toEqual({ exitCode: code, signal: null });
    expect(launcher.stderr).toBe(
      `gradring: ${signal} was passed on to the ranks, which ended: rank 0 ${signal}, rank 1 ${signal}.\n`,
    );
    expect(pids.filter(isRunning)).toEqual([]);
  },
);

test('ranks that take a signal as the time to finish get it once, and may succeed', async () => {
  const file = script(`
    const timer = setInterval(() => {}, 1000);
    process.on('SIGINT', () => {
      console.log('saved ' + process.env.RANK);
      clearInterval(timer);
      setTimeout(() => {}, 300);
    });
    ${SAY_READY}`);
  const launcher = gradring('run', '-n', '2', file);
  await launcher.readyRanks(2);
  launcher.child.kill('SIGINT');
  expect(await launcher.exited).toEqual({ exitCode: 0, signal: null });
  expect(launcher.stdout.match(/saved \d/g)!.sort()).toEqual(['saved 0', 'saved 1']);
});

const stubborn = (): string =>
  script(`
    setInterval(() => {}, 1000);
    process.on('SIGTERM', () => console.log('no ' + process.env.RANK));
    ${SAY_READY}`);

test('ranks that ignore it are killed after the grace time', async () => {
  const launcher = gradring('run', '-n', '2', '--grace-ms', '700', stubborn());
  const pids = await launcher.readyRanks(2);
  launcher.child.kill('SIGTERM');
  expect((await launcher.exited).exitCode).toBe(143);
  expect(launcher.stderr).toContain('rank 0 SIGKILL, rank 1 SIGKILL');
  expect(pids.filter(isRunning)).toEqual([]);
});

test('the same signal again kills them at once', async () => {
  const launcher = gradring('run', '-n', '2', '--grace-ms', '1000000', stubborn());
  await launcher.readyRanks(2);
  launcher.child.kill('SIGTERM');
  await waitUntil('both to refuse', () => launcher.stdout.includes('no 0') && launcher.stdout.includes('no 1'));
  launcher.child.kill('SIGTERM');
  expect((await launcher.exited).exitCode).toBe(143);
  expect(launcher.stderr).toContain('rank 0 SIGKILL, rank 1 SIGKILL');
});

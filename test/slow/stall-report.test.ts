import { expectReport, runUntilSaid, stallLines } from '../comm-thread/stalls';
import { runFaulty } from '../faults/support';
import { cleanUp } from '../launcher/support';

afterEach(cleanUp);

test('one rank tells of a rank that is late, again after twice as long; when it comes all go on', () =>
  expectReport(2, 'while (isAbsent()) await sleep(20);'));

test('says of a rank that has called nothing yet that it has not', async () => {
  const source = `
    const ring = await Communicator.connect();
    ready();
    if (ring.rank === 1) while (isAbsent()) await sleep(20);
    await ring.barrier();`;
  const { exitCode, stderr } = await runUntilSaid(3, source, 1);
  expect(exitCode).toBe(0);
  expect(stallLines(stderr)[0]).toMatch(
    /^gradring: 2 ranks have waited \d+ s in barrier\(\) \(collective 0\): rank 1 has not called it, or anything else since it joined \d+ s ago\.$/,
  );
});

test('a rank that does not answer is said to', async () => {
  const source = `
    const ring = await Communicator.connect();
    await ring.barrier();
    ready();
    if (ring.rank === 1) await sleep(60_000);
    await ring.barrier().catch(raise);`;
  const { stderr, raised } = await runFaulty(3, source, {
    // Half of the deadline is for the answers of those that run. The heartbeat timeout is longer than that.
    env: { GRADRING_STALL_MS: '300', GRADRING_TIMEOUT_MS: '10000', GRADRING_HEARTBEAT_TIMEOUT_MS: '60000' },
    args: ['--grace-ms', '300'],
    during: pids => void process.kill(pids[1]!, 'SIGSTOP'),
  });
  const words = /: rank 1 does not answer \(its process is stopped, or its network is cut\)\.$/;
  expect(stallLines(stderr)).toContainEqual(expect.stringMatching(words)); // not the first, perhaps: it answered before
  for (const rank of [0, 2]) expect(raised[rank]).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1 });
});

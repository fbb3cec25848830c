import { cleanUp } from '../launcher/support';
import { runFaulty } from './support';

afterEach(cleanUp);

const lines = (stderr: string) => stderr.split('\n').filter(line => line.startsWith('gradring: '));

/** Rank 2 comes late to a barrier. */
const late = (absence: string) => `
  const ring = await Communicator.connect();
  await ring.allReduce(Float32Array.of(1));
  if (ring.rank === 2) { ${absence}; }
  await ring.barrier();
  say('done');`;
const SLEEP = 'await sleep(2_000)';
const BUSY = 'for (const until = Date.now() + 2_000; Date.now() < until; );';

test.each([
  ['is late', SLEEP],
  ['is busy and its event loop does not turn', BUSY],
])('one rank tells of a rank that %s; when it comes all go on', async (_, absence) => {
  const { exitCode, stdout, stderr } = await runFaulty(4, late(absence), { env: { GRADRING_STALL_MS: '300' } });
  expect({ exitCode, done: stdout.match(/^done$/gm)?.length }).toEqual({ exitCode: 0, done: 4 });
  const told = lines(stderr);
  expect(told.length).toBeGreaterThanOrEqual(1);
  expect(told.length).toBeLessThanOrEqual(3); // after 0.6 s, 1.2 s, and if that came late 2.4 s
  for (const line of told) {
    expect(line).toMatch(
      /^gradring: 3 ranks have waited \d s in barrier\(\) \(collective 1\): rank 2 has not called it; its last call, allReduce\(sum, float32\[1\]\) \(collective 0\), ended \d s ago\.$/,
    );
  }
});

test('is not given before its time, nor at all with 0', async () => {
  for (const stallMs of ['30000', '0']) {
    const { exitCode, stderr } = await runFaulty(3, late(SLEEP), { env: { GRADRING_STALL_MS: stallMs } });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  }
});

test('says of a rank that is stuck in an earlier call, or has called nothing yet, that it is', async () => {
  const source = `
    const ring = await Communicator.connect();
    if (ring.rank === 1) await sleep(1_500);
    await ring.barrier();`;
  const { stderr } = await runFaulty(3, source, { env: { GRADRING_STALL_MS: '300' } });
  expect(lines(stderr)[0]).toMatch(
    /^gradring: 2 ranks have waited \d s in barrier\(\) \(collective 0\): rank 1 has not called it, nor anything since it joined \d s ago\.$/,
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
    env: { GRADRING_STALL_MS: '300', GRADRING_TIMEOUT_MS: '3000' },
    args: ['--grace-ms', '300'],
    during: pids => void process.kill(pids[1]!, 'SIGSTOP'),
  });
  expect(lines(stderr)[0]).toMatch(/: rank 1 does not answer \(its process is stopped, or its network cut\)\.$/);
  for (const rank of [0, 2]) expect(raised[rank]).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1 });
});

test('the error at the deadline names who has not called by then, not who came late', async () => {
  const source = `
    const ring = await Communicator.connect();
    await ring.barrier();
    if (ring.rank === 1) await sleep(3_000);
    if (ring.rank === 2) await sleep(15_000);
    try { await ring.barrier(); } catch (error) { raise(error); }`;
  const { raised } = await runFaulty(3, source, { env: { GRADRING_TIMEOUT_MS: '4500' }, args: ['--grace-ms', '500'] });
  for (const rank of [0, 1]) expect(raised[rank]).toMatchObject({ code: 'ERR_TIMEOUT', rank: 2 });
});

import { foldersLeft, startRanks } from '../support/rings';

/** Ranks as processes of their own, which die, stop and end in every way. */

/** Calls until it fails; then only the end of the script is left, so the process must end by itself. */
const UNTIL_FAILURE = (call: string, before = '') => `
  const ring = await Communicator.connect();
  await ring.barrier();
  say('ready');
  ${before}
  try { for (;;) { ${call}; } } catch (error) { tell(error); }`;

export const LOOPS = {
  'is idle': 'await sleep(100); await ring.barrier()',
  'reduces large arrays': 'await ring.allReduce(new Float32Array(300_000))',
  'reduces small arrays': 'await ring.allReduce(new Float32Array(10))',
  'sleeps in a Sync call': 'ring.rank === 2 ? await sleep(60_000) : ring.allReduceSync(new Float32Array(10))',
} as const;

type Transport = 'ipc' | 'tcp';

const envOf = (transport: Transport, more: NodeJS.ProcessEnv = {}) => ({
  ...{ GRADRING_TRANSPORT: transport, GRADRING_TIMEOUT_MS: '20000' },
  ...more,
});

async function expectLost(ranks: Awaited<ReturnType<typeof startRanks>>): Promise<void> {
  for (const [rank, { ended }] of ranks.entries()) {
    if (rank === 2) continue;
    const { exitCode, signal, stdout, stderr } = await ended;
    expect({ rank, exitCode, signal, stdout, stderr }).toMatchObject({
      ...{ rank, exitCode: 0, signal: null },
      stdout: 'ready\nerror ERR_PEER_LOST 2\n',
    });
  }
}

/** Tests in which a rank is killed while the ring does one of these. */
export function testKills(transport: Transport, loops: readonly (keyof typeof LOOPS)[]): void {
  test.each(loops)('a rank is killed while the ring %s', async loop => {
    const ranks = await startRanks(
      loop === 'reduces small arrays' ? 4 : 3,
      UNTIL_FAILURE(LOOPS[loop]),
      envOf(transport),
    );
    await Promise.all(ranks.map(rank => rank.said('ready')));
    ranks[2]!.child.kill('SIGKILL');
    await expectLost(ranks);
    expect(foldersLeft()).toEqual([]);
  });
}

/**
 * Tests of ranks that are stopped, or busy for longer than the heartbeat timeout. That is so long that no rank is
 * lost on a machine that halts its threads for some hundred milliseconds.
 */
export function testPauses(transport: Transport): void {
  test('a rank is stopped: it sends no heartbeats', async () => {
    const call = LOOPS['reduces small arrays'];
    const ranks = await startRanks(3, UNTIL_FAILURE(call), envOf(transport, { GRADRING_HEARTBEAT_TIMEOUT_MS: '2000' }));
    await Promise.all(ranks.map(rank => rank.said('ready')));
    ranks[2]!.child.kill('SIGSTOP');
    await expectLost(ranks);
    expect(foldersLeft()).toEqual([]);
  });

  test('a rank that is busy, or asleep in a Sync call, for much longer than the heartbeat allows is not lost', async () => {
    const source = `
      const ring = await Communicator.connect();
      const busy = ms => { for (const until = Date.now() + ms; Date.now() < until; ); };
      await ring.barrier();
      if (ring.rank === 0) busy(3_000); // no event loop of rank 0 turns, and ranks 1 and 2 sleep until it comes
      say(ring.allReduceSync(Float32Array.of(ring.rank + 1)).join());
      if (ring.rank === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
      say((await ring.allReduce(Float32Array.of(1))).join());`;
    const ranks = await startRanks(3, source, envOf(transport, { GRADRING_HEARTBEAT_TIMEOUT_MS: '1500' }));
    for (const { ended } of ranks) {
      expect(await ended).toMatchObject({ exitCode: 0, stdout: '6\n3\n', stderr: '' });
    }
  });
}

/** Tests of ranks that end in the midst of calls. */
export function testExits(transport: Transport): void {
  test.each([
    ['throws', `throw new Error('on purpose');`, 1],
    ['exits with an error', 'process.exit(7);', 7],
    ['exits without one', 'process.exit(0);', 0],
  ])('a rank %s in the midst of calls, and keeps its exit code', async (_, doom, exitCode) => {
    const call = LOOPS['reduces large arrays'];
    const before = `if (ring.rank === 2) (async () => { ${call}; setImmediate(() => { ${doom} }); })();`; // in the next one
    const ranks = await startRanks(3, UNTIL_FAILURE(call, before), envOf(transport));
    await expectLost(ranks);
    expect(await ranks[2]!.ended).toMatchObject({ exitCode, signal: null });
  });
}

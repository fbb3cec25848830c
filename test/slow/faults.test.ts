import path from 'node:path';
import { train } from '../faults/faulty-training';
import { crash, expectCrash, expectEnd } from '../faults/process-faults';
import { canIsolate, expectAgreed, runFaulty, untilFailure } from '../faults/support';
import { cleanUp } from '../launcher/support';
import { testWhere } from '../support/test-where';
import { launchFixture } from '../tensorflow/support';

/** Faults of processes, and of a training, under `gradring run`. */

afterEach(cleanUp);

test('two ranks are killed at once: each survivor names one of them', async () => {
  const kill = (pids: number[]) => {
    for (const rank of [1, 4]) process.kill(pids[rank]!, 'SIGKILL');
  };
  const { raised, exitCode, left, orphans } = await runFaulty(6, untilFailure(), { during: kill });
  for (const part of [[2, 3], [5, 0]]) {
    const told = part.map(rank => `${raised[rank]?.code} ${raised[rank]?.rank}`);
    expect([['ERR_PEER_LOST 1'], ['ERR_PEER_LOST 4']]).toContainEqual([...new Set(told)]);
  }
  expect({ exitCode, left, orphans }).toEqual({ exitCode: 137, left: [], orphans: [] });
}); // prettier-ignore

test.each([
  ['throws between two collectives', `throw new Error('on purpose')`, 1, 'is gone'],
  ['calls process.exit(0) in mid-step', 'process.exit(0)', 0, 'has left the ring'],
])('a script %s', (_, doom, exitCode, words) => expectEnd(doom, exitCode, words));

describe('a comm thread crashes', () => {
  test.each([
    ['in a call that sleeps', 'ring.allReduceSync(new Float32Array(100_000))'],
    ['between two calls', 'await ring.allReduce(new Float32Array(100_000)); await sleep(200)'],
  ])('%s: all ranks say which, and why', (_, call) => expectCrash(call));

  test('what it held can be closed, and so can the communicator', async () => {
    const dgc = JSON.stringify(path.join(__dirname, '../../dist/compression/dgc-options.js'));
    const source = `
      const ring = await Communicator.connect();
      const compression = require(${dgc}).noCompression();
      const exchange = ring.openExchange({ variables: [{ name: 'a', shape: [8] }], compression, nesterov: false });
      ready();
      try { for (;;) await ring.barrier(); } catch (error) { raise(error); }
      exchange.close();
      await ring.close();
      say('closed ' + ring.rank);`;
    const run = await crash(source);
    expectAgreed(run, [0, 1, 2], { code: 'ERR_COMM_THREAD', rank: 2 });
    for (const rank of [0, 1, 2]) expect(run.stdout).toContain(`closed ${rank}\n`);
  });
});

test('a rank that has no place for its socket: all ranks say which', async () => {
  const source = `
    if (process.env.RANK === '1') process.env.GRADRING_SOCKET_FOLDER = '/nowhere';
    ready();
    await Communicator.connect().catch(raise);`;
  const run = await runFaulty(3, source, { env: { GRADRING_TRANSPORT: 'ipc' } });
  expectAgreed(run, [0, 1, 2], { code: 'ERR_ADDRESS_IN_USE' });
  for (const rank of [0, 2]) expect(run.raised[rank]!.message).toMatch(/^Rank 1 cannot listen: .*\/nowhere.*TMPDIR/);
  expect(run.exitCode).toBe(1);
});

describe('a training', () => {
  test('a gradient that is not finite on one rank: all ranks say on which, and when', async () => {
    const run = await train('not finite');
    expectAgreed(run, [0, 1], { code: 'ERR_NON_FINITE', rank: 1, step: 2 });
    expect(run.exitCode).toBe(1);
  });

  test('replicas that have diverged are found at the next comparison', async () => {
    const run = await train('diverged');
    expectAgreed(run, [0, 1], { code: 'ERR_REPLICAS_DIVERGED', rank: 1 });
    expect(run.exitCode).toBe(1);
  });

  testWhere(canIsolate ? undefined : 'no mount of its own can be made')(
    'a disk that is full on one rank: all say which, and whole checkpoints stay',
    async () => {
      const run = await train('none', { prepare: 'mount -t tmpfs -o size=64k none "$FULL_DISK"' });
      expectAgreed(run, [0, 1], { code: 'ERR_CHECKPOINT', rank: 1 });
      for (const { message } of run.raised) expect(message).toMatch(/ENOSPC/);
      expect(run.stdout).not.toContain('saved');
      expect(run.exitCode).toBe(1);
    },
  );

  test('a rank that is killed in model.fit: the others raise ERR_PEER_LOST with its number, the launcher names it', async () => {
    type Failure = { code: string; details: { rank: number } } | undefined;
    const { results, rootCause, exitCode, output } = await launchFixture<Failure>('killed.js', { ranks: 3 });
    expect(rootCause).toMatchObject({ rank: 1, signal: 'SIGKILL' });
    expect(exitCode).toBe(128 + 9);
    expect(output).toMatch(/rank 1 \(pid \d+\) was killed by SIGKILL .*root cause/);
    for (const rank of [0, 2]) expect(results[rank]).toMatchObject({ code: 'ERR_PEER_LOST', details: { rank: 1 } });
    expect(results[1]).toBeUndefined();
  });
});

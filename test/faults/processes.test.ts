import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, temporaryFolder } from '../launcher/support';
import { expectAgreed, runFaulty, untilFailure } from './support';

/** Faults of processes under `gradring run`: what the survivors raise, how the launcher ends, what is left. */

afterEach(cleanUp);

const SURVIVORS = [0, 1, 3];
const OPERATION = 'allReduce(sum, float32[100000])';

test('a rank is killed', async () => {
  const run = await runFaulty(4, untilFailure(), { during: pids => void process.kill(pids[2]!, 'SIGKILL') });
  expectAgreed(run, SURVIVORS, { code: 'ERR_PEER_LOST', rank: 2, operation: OPERATION });
  for (const rank of SURVIVORS) {
    expect(run.raised[rank]!.address).toMatch(/^ipc:.*\/left$/);
    expect(run.raised[rank]!.message).toContain(run.raised[rank]!.address);
    expect(run.raised[rank]!.message).toMatch(`(Rank ${rank} was in ${OPERATION} (collective `);
  }
  expect(run.summary).toMatch(/^gradring: rank 2 \(pid \d+\) was killed by SIGKILL .*root cause/);
  expect(run.exitCode).toBe(137);
});

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
  ['calls process.exit(3) in mid-step', 'process.exit(3)', 3, 'is gone'],
  ['calls process.exit(0) in mid-step', 'process.exit(0)', 0, 'has left the ring'],
])('a script %s', async (_, doom, exitCode, words) => {
  const call = 'ring.allReduce(new Float32Array(100_000))';
  const before = `if (ring.rank === 2) void ${call}.then(() => setImmediate(() => { ${doom}; }));`; // in the next one
  const run = await runFaulty(3, untilFailure(before));
  expectAgreed(run, [0, 1], { code: 'ERR_PEER_LOST', rank: 2, operation: OPERATION });
  for (const rank of [0, 1]) expect(run.raised[rank]!.message).toContain(words);
  expect(run.exitCode).toBe(exitCode === 0 ? 1 : exitCode); // of the first that failed: one that misses it
  const end =
    exitCode === 0 ? 'exited with code 0 after .*, before the others were done' : `failed with exit code ${exitCode}`;
  expect(run.summary).toMatch(new RegExp(`^gradring: rank 2 \\(pid \\d+\\) ${end}`));
});

describe('a comm thread crashes', () => {
  const hook = path.join(__dirname, 'crashing-thread.js');
  const crash = (calls: string) => {
    const file = path.join(temporaryFolder(), 'now');
    return runFaulty(3, calls, {
      env: { NODE_OPTIONS: `--require ${hook}`, CRASH_RANK: '2', CRASH_FILE: file },
      during: () => writeFileSync(file, ''),
    });
  };

  test.each([
    ['in a call', 'await ring.allReduce(new Float32Array(100_000))'],
    ['in a call that sleeps', 'ring.allReduceSync(new Float32Array(100_000))'],
    ['between two calls', 'await ring.allReduce(new Float32Array(100_000)); await sleep(200)'],
  ])('%s: all ranks say which, and why', async (_, call) => {
    const run = await crash(untilFailure('', call));
    expectAgreed(run, [0, 1, 2], { code: 'ERR_COMM_THREAD', rank: 2 });
    for (const { message } of run.raised) expect(message).toContain('crashed on purpose');
    expect(run.exitCode).toBe(1);
  });

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

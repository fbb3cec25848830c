import { cleanUp } from '../launcher/support';
import { expectCrash, expectEnd, OPERATION } from './process-faults';
import { expectAgreed, runFaulty, untilFailure } from './support';

/** Faults of processes under `gradring run`; more of them are in test/slow/faults.test.ts. */

afterEach(cleanUp);

const SURVIVORS = [0, 1, 3];

test('a rank is killed', async () => {
  const run = await runFaulty(4, untilFailure(), { during: pids => void process.kill(pids[2]!, 'SIGKILL') });
  expectAgreed(run, SURVIVORS, { code: 'ERR_PEER_LOST', rank: 2, operation: OPERATION });
  for (const rank of SURVIVORS) {
    expect(run.raised[rank]!.address).toMatch(/^ipc:.*\/left$/);
    expect(run.raised[rank]!.message).toContain(run.raised[rank]!.address);
    // It was in a call, or between two of them.
    const words = [`was in ${OPERATION} (collective `, `called ${OPERATION}.)`].map(each => `(Rank ${rank} ${each}`);
    expect(words.filter(each => run.raised[rank]!.message.includes(each))).toHaveLength(1);
  }
  expect(run.summary).toMatch(/^gradring: rank 2 \(pid \d+\) was killed by SIGKILL .*root cause/);
  expect(run.exitCode).toBe(137);
});

test('a script calls process.exit(3) in mid-step', () => expectEnd('process.exit(3)', 3, 'is gone'));

test('a comm thread crashes in a call: all ranks say which, and why', () =>
  expectCrash('await ring.allReduce(new Float32Array(100_000))'));

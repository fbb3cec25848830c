import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from '../launcher/support';
import { expectAgreed, runFaulty, untilFailure } from './support';

/** What the survivors of a fault raise, how the launcher ends, what is left. */

export const OPERATION = 'allReduce(sum, float32[100000])';

/** A script of rank 2 ends so within its second collective, with this exit code. */
export async function expectEnd(doom: string, exitCode: number, words: string): Promise<void> {
  const call = 'ring.allReduce(new Float32Array(100_000))';
  const before = `if (ring.rank === 2) void ${call}.then(() => setImmediate(() => { ${doom}; }));`; // in the next one
  const run = await runFaulty(3, untilFailure(before));
  expectAgreed(run, [0, 1], { code: 'ERR_PEER_LOST', rank: 2, operation: OPERATION });
  for (const rank of [0, 1]) expect(run.raised[rank]!.message).toContain(words);
  expect(run.exitCode).toBe(exitCode === 0 ? 1 : exitCode); // of the first that failed: one that misses it
  const end =
    exitCode === 0 ? 'exited with code 0 after .*, before the others were done' : `failed with exit code ${exitCode}`;
  expect(run.summary).toMatch(new RegExp(`^gradring: rank 2 \\(pid \\d+\\) ${end}`));
}

/** Runs three ranks, of which rank 2 has its comm thread crash when all are ready. */
export function crash(source: string): ReturnType<typeof runFaulty> {
  const hook = path.join(__dirname, 'crashing-thread.js');
  const file = path.join(temporaryFolder(), 'now');
  return runFaulty(3, source, {
    env: { NODE_OPTIONS: `--require ${hook}`, CRASH_RANK: '2', CRASH_FILE: file },
    during: () => writeFileSync(file, ''),
  });
}

/** The comm thread of rank 2 crashes while the ranks call this: all say which, and why. */
export async function expectCrash(call: string): Promise<void> {
  const run = await crash(untilFailure('', call));
  expectAgreed(run, [0, 1, 2], { code: 'ERR_COMM_THREAD', rank: 2 });
  for (const { message } of run.raised) expect(message).toContain('crashed on purpose');
  expect(run.exitCode).toBe(1);
}

import { cleanUp } from '../launcher/support';
import { train } from './faulty-training';
import { expectAgreed } from './support';

/** A fault of a training under `gradring run`; more of them are in test/slow/faults.test.ts. */

afterEach(cleanUp);

test('a rank that is killed in a step: the others say in which', async () => {
  const run = await train('killed');
  expectAgreed(run, [0], { code: 'ERR_PEER_LOST', rank: 1, step: 2 });
  expect(run.raised[0]!.operation).toBe('an optimizer step');
  expect(run.raised[0]!.message).toMatch(
    /Rank 0 (was in an optimizer step \(collective \d+, step 2\)|called an optimizer step)/,
  );
  expect(run.exitCode).toBe(137);
});

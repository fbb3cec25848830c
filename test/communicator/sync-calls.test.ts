import { cleanUpRanks, startRanks } from '../support/rings';
import { expectSameAsleep } from './asleep';

afterEach(cleanUpRanks);

// In other rings: test/slow/sync-calls.test.ts.
test('the Sync forms give what the others give', () => expectSameAsleep(2));

test('a clock that jumps while a rank sleeps is no proof that its comm thread has crashed', async () => {
  const source = `
    const ring = await Communicator.connect();
    let jump = 0;
    const { now } = Date;
    Date.now = () => now() + (jump += 3_600_000);
    const { now: tick } = performance;
    performance.now = () => tick.call(performance) + (jump += 3_600_000);
    const earlier = Array.from({ length: 100 }, () => ring.allReduce(Float32Array.of(1))); // they wake it, and it sleeps on
    ring.barrierSync();
    await Promise.all(earlier);
    say('done');`;
  const ranks = await startRanks(2, source);
  for (const { ended } of ranks) expect(await ended).toMatchObject({ exitCode: 0, stdout: 'done\n' });
});

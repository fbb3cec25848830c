import { launchFixture } from './support';
import { checkpointFolder, removeCheckpoints } from './stops';

afterAll(removeCheckpoints);

// What resumes from it, by which loops, compressions and rings: test/slow/stop.test.ts.
test('a rank whose time is over tells the others with the next step, and all stop after it', async () => {
  const connect = [null, { stopAfter: '0.001s' }];
  const input = { way: 'loop', dir: checkpointFolder(), connect };
  const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input });
  expect(output).toContain('gradring: another rank was told to stop. All ranks have saved at step 2 (');
  expect(exitCode).toBe(75);
});

import { launchFixture } from './support';
import { checkpointFolder, expectToStopAndResume, removeCheckpoints, type Stop } from './stops';

afterAll(removeCheckpoints);

// Other loops, compressions and rings, elastic ones too: test/slow/stop.test.ts.
test.each<Stop>([{ ranks: 2, way: 'fit', told: { rank: 1, step: 8, signal: 'SIGUSR1' }, savedAt: 9 }])(
  'a rank that is told to stop: $way on $ranks, $told',
  expectToStopAndResume,
);

test('a rank whose time is over tells the others with the next step, and all stop after it', async () => {
  const connect = [null, { stopAfter: '0.001s' }];
  const input = { way: 'loop', dir: checkpointFolder(), connect };
  const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input });
  expect(output).toContain('gradring: another rank was told to stop. All ranks have saved at step 2 (');
  expect(exitCode).toBe(75);
});

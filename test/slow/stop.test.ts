import { readdirSync } from 'node:fs';
import {
  checkpointFolder,
  type Ended,
  expectToStopAndResume,
  removeCheckpoints,
  type Stop,
  wholeRun,
} from '../tensorflow/stops';
import { launchFixture, runFixture } from '../tensorflow/support';

afterAll(removeCheckpoints);

const savesIn = (dir: string) => readdirSync(dir).filter(name => name.startsWith('save-'));

test.each<Stop>([
  { ranks: 1, way: 'fit', told: { rank: 0, step: 14, signal: 'SIGTERM' }, savedAt: 15 },
  { ranks: 2, way: 'fit', told: { rank: 1, step: 8, signal: 'SIGUSR1' }, savedAt: 9 },
  { ranks: 3, way: 'fit', told: { rank: 1, step: 6, signal: 'SIGTERM' }, savedAt: 7 },
  { ranks: 2, way: 'sync loop', told: { rank: 1, step: 5, signal: 'SIGTERM' }, savedAt: 6 },
  { ranks: 2, way: 'loop', told: { rank: 0, step: 5, signal: 'SIGUSR1' }, savedAt: 6 },
  { ranks: 2, way: 'fit', told: { rank: 1, step: 5, signal: 'SIGTERM' }, min: 1, savedAt: 6 }, // an elastic run
  { ranks: 2, way: 'loop', told: { rank: 1, step: 4, signal: 'SIGTERM' }, savedAt: 5, options: { background: true, every: 4 } }, // prettier-ignore
  // A notice travels with an exchange.
  { ranks: 2, way: 'loop', told: { rank: 1, step: 5, signal: 'SIGTERM' }, wrap: { localSteps: 4 }, savedAt: 8 },
  { ranks: 2, way: 'fit', told: { rank: 1, step: 5, signal: 'SIGTERM' }, wrap: { accumulate: 4 }, savedAt: 8 },
])('a rank that is told to stop: $way on $ranks, $told, $wrap, $options', expectToStopAndResume);

test('model.fit goes on from a checkpoint between two exchanges', async () => {
  const [dir, wrap] = [checkpointFolder(), { accumulate: 4 }];
  const input = { way: 'fit', dir, wrap, options: { every: 9 } }; // the exchanges are in steps 4, 8 and 12
  const { ranks } = await launchFixture('stop.js', { ranks: 2, input: { ...input, killed: { rank: 1, step: 10 } } });
  expect(ranks[1]!.signal).toBe('SIGKILL');
  const resumed = await runFixture<Ended>('stop.js', { ranks: 2, input });
  expect(resumed).toEqual((await wholeRun(2, 'fit', wrap)).map(each => ({ ...each, at: 9 })));
});

test('an elastic run that has lost a rank stops as well, and goes on from there with all ranks', async () => {
  const input = { way: 'loop', dir: checkpointFolder(), options: { residuals: 'redistribute' } };
  const ends = { killed: { rank: 2, step: 3 }, told: { rank: 0, step: 6, signal: 'SIGTERM' } };
  const { exitCode, ranks, output } = await launchFixture('stop.js', { ranks: 3, min: 1, input: { ...input, ...ends } }); // prettier-ignore
  expect([exitCode, ranks.map(each => each.signal ?? each.exitCode)]).toEqual([75, [75, 75, 'SIGKILL']]);
  const at = Number(/All ranks have saved at step (\d+) \(/.exec(output)![1]);
  expect([7, 8]).toContain(at);
  const resumed = await runFixture<Ended>('stop.js', { ranks: 3, min: 1, input });
  expect(resumed).toEqual(Array(3).fill({ at, steps: 12, hash: resumed[0]!.hash }));
});

test('ranks whose time is over stop after the next step', async () => {
  const dir = checkpointFolder();
  const ways = [
    { stopAfter: '0.001s', env: { GRADRING_STOP_AFTER: '11.5h' } }, // as --stop-after
    { env: { GRADRING_STOP_AFTER: '0.001s' } },
  ];
  for (const [i, way] of ways.entries()) {
    const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input: { way: 'loop', dir }, ...way });
    const step = 2 * (i + 1);
    expect(output).toContain(`gradring: the time of this rank is over. All ranks have saved at step ${step} (`);
    expect(exitCode).toBe(75);
  }
  expect(savesIn(dir)).toHaveLength(2);
});

test('saveOnStop: false leaves the signal to the program', async () => {
  const dir = checkpointFolder();
  const told = { rank: 1, step: 5, signal: 'SIGTERM' };
  const input = { way: 'loop', dir, told, options: { saveOnStop: false } };
  const { ranks, exitCode } = await launchFixture('stop.js', { ranks: 2, input });
  expect([ranks[1]!.signal, exitCode]).toEqual(['SIGTERM', 143]);
  expect(savesIn(dir)).toEqual([]);
});

test('a signal after the last step ends the process as usual, when model.fit is over', async () => {
  const told = { rank: 0, step: 36, signal: 'SIGTERM' };
  const { ranks } = await launchFixture('stop.js', { ranks: 1, input: { way: 'fit', dir: checkpointFolder(), told } });
  expect(ranks[0]!.signal).toBe('SIGTERM');
});

test('if the checkpoint cannot be written, the run fails', async () => {
  const told = { rank: 1, step: 5, signal: 'SIGTERM' };
  const input = { way: 'loop', dir: '/dev/null/checkpoints', told };
  const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input });
  expect(output).toContain('ERR_CHECKPOINT');
  expect(exitCode).toBe(1);
});

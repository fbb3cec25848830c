import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launchFixture, runFixture } from './support';

interface Ended {
  /** The step that it resumed from. */
  readonly at: number;
  readonly steps: number;
  readonly hash: string;
}

interface Case {
  readonly ranks: number;
  readonly way: 'fit' | 'sync loop' | 'loop';
  readonly told: { readonly rank: number; readonly step: number; readonly signal: 'SIGTERM' | 'SIGUSR1' };
  readonly wrap?: object;
  readonly options?: object;
  readonly min?: number;
  /** After which all save at the earliest. */
  readonly savedAt: number;
}

let folder: string;
beforeAll(() => (folder = mkdtempSync(path.join(tmpdir(), 'gradring-stop-'))));
afterAll(() => rmSync(folder, { recursive: true }));

let folders = 0;
const newFolder = () => path.join(folder, `checkpoints-${folders++}`);
const savesIn = (dir: string) => readdirSync(dir).filter(name => name.startsWith('save-'));

// The signal comes after a step. So the others learn of it with the next one, or with the one after that: Node handles
// signals between two turns of its event loop.
test.each<Case>([
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
])(
  'a rank that is told to stop: $way on $ranks, $told, $wrap, $options',
  async ({ ranks, min, savedAt, told, wrap, options, way }) => {
    const [dir, input] = [newFolder(), { way, wrap, options }];
    const stopped = await launchFixture('stop.js', { ranks, min, input: { ...input, told, dir } });
    const at = Number(/All ranks have saved at step (\d+) \(/.exec(stopped.output)![1]);
    expect([0, 1]).toContain((at - savedAt) / (wrap === undefined ? 1 : 4));
    const who = told.rank === 0 ? `this rank was told to stop (${told.signal})` : 'another rank was told to stop';
    expect(stopped.output).toContain(`gradring: ${who}.`);
    expect(stopped.output).toContain('gradring: the ranks were told to stop. They have saved');
    expect(stopped.ranks.map(({ exitCode }) => exitCode)).toEqual(Array(ranks).fill(75));
    expect([stopped.exitCode, stopped.results]).toEqual([75, []]);

    const resumed = await runFixture<Ended>('stop.js', { ranks, min, input: { ...input, dir } });
    expect(resumed).toEqual((await wholeRun(ranks, way, wrap)).map(each => ({ ...each, at })));
  },
);

const wholeRuns = new Map<string, Promise<readonly Ended[]>>();

/** What the ranks end with if nobody stops them: the same in an elastic run, and with synchronous steps. */
function wholeRun(ranks: number, way: Case['way'], wrap: object | undefined): Promise<readonly Ended[]> {
  const input = { way: way === 'fit' ? way : 'loop', wrap };
  const key = JSON.stringify([ranks, input]);
  const run = wholeRuns.get(key) ?? runFixture<Ended>('stop.js', { ranks, input: { ...input, dir: newFolder() } });
  wholeRuns.set(key, run);
  return run;
}

test('model.fit goes on from a checkpoint between two exchanges', async () => {
  const [dir, wrap] = [newFolder(), { accumulate: 4 }];
  const input = { way: 'fit', dir, wrap, options: { every: 9 } }; // the exchanges are in steps 4, 8 and 12
  const { ranks } = await launchFixture('stop.js', { ranks: 2, input: { ...input, killed: { rank: 1, step: 10 } } });
  expect(ranks[1]!.signal).toBe('SIGKILL');
  const resumed = await runFixture<Ended>('stop.js', { ranks: 2, input });
  expect(resumed).toEqual((await wholeRun(2, 'fit', wrap)).map(each => ({ ...each, at: 9 })));
});

test('an elastic run that has lost a rank stops as well', async () => {
  const input = { way: 'loop', dir: newFolder(), killed: { rank: 2, step: 3 }, told: { rank: 0, step: 6, signal: 'SIGTERM' } }; // prettier-ignore
  const { exitCode, ranks } = await launchFixture('stop.js', { ranks: 3, min: 1, input });
  expect([exitCode, ranks.map(each => each.signal ?? each.exitCode)]).toEqual([75, [75, 75, 'SIGKILL']]);
});

test('a rank whose time is over tells the others with the next step, and all stop after it', async () => {
  const dir = newFolder();
  const ways = [
    { stopAfter: '0.001s', env: { GRADRING_STOP_AFTER: '11.5h' } }, // as --stop-after
    { env: { GRADRING_STOP_AFTER: '0.001s' } },
    { connect: [null, { stopAfter: '0.001s' }] }, // rank 1 alone
  ];
  for (const [i, { connect, ...way }] of ways.entries()) {
    const input = { way: 'loop', dir, connect };
    const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input, ...way });
    const who = connect === undefined ? 'the time of this rank is over' : 'another rank was told to stop';
    expect(output).toContain(`gradring: ${who}. All ranks have saved at step ${2 * (i + 1)} (`);
    expect(exitCode).toBe(75);
  }
  expect(savesIn(dir)).toHaveLength(2);
});

test('saveOnStop: false leaves the signal to the program', async () => {
  const dir = newFolder();
  const told = { rank: 1, step: 5, signal: 'SIGTERM' };
  const input = { way: 'loop', dir, told, options: { saveOnStop: false } };
  const { ranks, exitCode } = await launchFixture('stop.js', { ranks: 2, input });
  expect([ranks[1]!.signal, exitCode]).toEqual(['SIGTERM', 143]);
  expect(savesIn(dir)).toEqual([]);
});

test('a signal after the last step ends the process as usual, when model.fit is over', async () => {
  const told = { rank: 0, step: 36, signal: 'SIGTERM' };
  const { ranks } = await launchFixture('stop.js', { ranks: 1, input: { way: 'fit', dir: newFolder(), told } });
  expect(ranks[0]!.signal).toBe('SIGTERM');
});

test('if the checkpoint cannot be written, the run fails', async () => {
  const told = { rank: 1, step: 5, signal: 'SIGTERM' };
  const input = { way: 'loop', dir: '/dev/null/checkpoints', told };
  const { exitCode, output } = await launchFixture('stop.js', { ranks: 2, input });
  expect(output).toContain('ERR_CHECKPOINT');
  expect(exitCode).toBe(1);
});

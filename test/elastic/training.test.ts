import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NOTE_FOLDERS } from '../support/rings';
import { finishedAlike, type Member, runElastic } from './support';

// 96 rows, four ranks at launch, batches of four rows: six steps an epoch, however many ranks are left.
const EPOCH_STEPS = 6;
const LIMIT_MS = 300_000;

const preloading = (fixture: string) => {
  const file = path.join(__dirname, `fixtures/${fixture}.js`);
  return { NODE_OPTIONS: `${NOTE_FOLDERS.NODE_OPTIONS} --require ${JSON.stringify(file)}` };
};

const sizesOf = (epochsSeen: readonly { worldSize: number }[]) => epochsSeen.map(({ worldSize }) => worldSize);

test(
  'a run without a loss has the bits of one that is not elastic',
  async () => {
    const [plain] = finishedAlike(await runElastic({ epochs: 2 }, {}));
    const elastic = finishedAlike(await runElastic({ epochs: 2 }, { min: 2, maxRestarts: 1 }));
    expect(elastic).toHaveLength(4);
    expect(elastic[0]!.hash).toBe(plain!.hash);
    expect(elastic[0]).toMatchObject({ generation: 0, worldSize: 4, steps: 2 * EPOCH_STEPS });
  },
  LIMIT_MS,
);

test.each([0, 2])(
  'rank %i is killed within an epoch: the others go on, with equal weights, and each with its own rows',
  async rank => {
    const run = await runElastic({ epochs: 3, dooms: [{ rank, epoch: 1, batch: 3 }] }, { min: 2 });
    expect(run.exitCode).toBe(0);
    const survivors = finishedAlike(run);
    expect(survivors.map(member => member.rank)).toEqual([0, 1, 2]);
    for (const { worldSize, generation, steps, epochsSeen, shardRows } of survivors) {
      expect({ worldSize, generation, steps, shardRows }).toEqual({
        ...{ worldSize: 3, generation: 1, steps: 3 * EPOCH_STEPS, shardRows: 24 },
      });
      expect(sizesOf(epochsSeen)).toEqual([4, 3, 3]);
    }
    expect(run.told).toContain(`gradring: rank ${rank} was lost (SIGKILL); 3 ranks go on.`);
    const left = [0, 1, 2, 3].filter(other => other !== rank).join(', ');
    expect(run.told).toContain(`gradring: generation 1 stands: 3 ranks, ${left}.`);
  },
  LIMIT_MS,
);

test(
  'two are killed at once, then a third: the last one is a ring of its own',
  async () => {
    const dooms = [
      { rank: 0, epoch: 0, batch: 4 },
      { rank: 2, epoch: 0, batch: 4 },
      { rank: 3, epoch: 1, batch: 2 },
    ] as const;
    const run = await runElastic({ epochs: 3, dooms }, { min: 1 });
    expect(run.exitCode).toBe(0);
    const [last, ...others] = finishedAlike(run);
    expect(others).toEqual([]);
    expect(last).toMatchObject({ rank: 0, worldSize: 1, steps: 3 * EPOCH_STEPS });
    expect(run.members[1]).toEqual(last);
  },
  LIMIT_MS,
);

test.each([
  ['at the end of an epoch', { batch: 'end' }],
  ['by an error of its own', { batch: 2, how: 'throw' }],
] as const)(
  'a rank is lost %s',
  async (_, how) => {
    const run = await runElastic({ epochs: 3, dooms: [{ rank: 1, epoch: 1, ...how }] }, { min: 3 });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run).map(({ generation }) => generation)).toEqual([1, 1, 1]);
  },
  LIMIT_MS,
);

test.each([0, 200, 300, 450])(
  'another rank is killed %i ms after the first: while the loss is noticed, or while the ring forms',
  async afterMs => {
    const dooms = [
      { rank: 2, epoch: 1, batch: 3 },
      { rank: 3, epoch: 1, batch: 3, afterMs },
    ] as const;
    const run = await runElastic({ epochs: 6, dooms }, { min: 2 });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toMatchObject([
      { rank: 0, worldSize: 2 },
      { rank: 1, worldSize: 2 },
    ]);
  },
  LIMIT_MS,
);

test.each(['momentum', 'adam'] as const)(
  'with %s, a rank that was killed is started again, joins at the end of an epoch, and ends with the same weights',
  async optimizerName => {
    const dooms = [{ rank: 2, epoch: 1, batch: 3 }] as const;
    const run = await runElastic({ epochs: 4, optimizerName, dooms, waitForNewcomerAt: 2 }, { min: 2, maxRestarts: 1 });
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run);
    expect(members).toHaveLength(4);
    expect(members[2]).toMatchObject({
      ...{ rank: 2, worldSize: 4, generation: 2, steps: 4 * EPOCH_STEPS },
      at: { step: 3 * EPOCH_STEPS, epoch: 3 },
    });
    expect(members.map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([
      [4, 3, 3, 4],
      [4, 3, 3, 4],
      [4],
      [4, 3, 3, 4],
    ]);
    expect(run.told).toContain(
      'gradring: rank 2 is started again (restart 1 of 1), and joins when the others let it in.',
    );
    expect(run.told.at(-1)).toBe('gradring: generation 2 stands: 4 ranks, 0, 1, 2, 3.');
  },
  LIMIT_MS,
);

test(
  'all that over encrypted TCP',
  async () => {
    const env = { GRADRING_TRANSPORT: 'tcp', GRADRING_ENCRYPTION: 'on' };
    const dooms = [{ rank: 0, epoch: 0, batch: 3 }] as const;
    const run = await runElastic({ epochs: 3, dooms, waitForNewcomerAt: 1 }, { min: 2, maxRestarts: 1, env });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run).map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([
      [4],
      [3, 3, 4],
      [3, 3, 4],
      [3, 3, 4],
    ]);
  },
  LIMIT_MS,
);

test(
  'the last one left is joined by a rank that is started again',
  async () => {
    const options = { ranks: 2, min: 1, maxRestarts: 1 };
    const dooms = [{ rank: 0, epoch: 0, batch: 3 }] as const;
    const run = await runElastic({ epochs: 4, dooms, waitForNewcomerAt: 2 }, options);
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run).map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([[2], [1, 1, 1, 2]]);
  },
  LIMIT_MS,
);

test.each(['SIGSTOP', 'hang'] as const)(
  'a rank that does not answer any more (%s) is killed, and replaced',
  async how => {
    const dooms = [{ rank: 3, epoch: 1, batch: 1, how }] as const;
    const env = { GRADRING_TIMEOUT_MS: '10000' };
    const run = await runElastic({ epochs: 4, dooms, waitForNewcomerAt: 2 }, { min: 2, maxRestarts: 1, env });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toHaveLength(4);
    expect(run.told).toContain('gradring: rank 3 does not answer, and is killed.');
  },
  LIMIT_MS,
);

test.each([true, false])(
  'a custom loop, asleep in its steps: %s',
  async sync => {
    const run = await runElastic({ sync }, { ranks: 3, min: 2, maxRestarts: 1 }, 'loop');
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run) as (Member & { seen: string[]; tooEarly: unknown })[];
    expect(members[1]!.tooEarly).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(members[1]!.at).toEqual({ step: 20, epoch: 0, state: { note: 'after 20' } });
    expect(members[0]!.at).toEqual({ step: 0, epoch: 0 });
    const [before, without, after] = ['012', '02', '012'];
    expect(members[0]!.seen).toEqual([...Array(7).fill(before), ...Array(13).fill(without), ...Array(10).fill(after)]);
    expect(members[2]!.seen).toEqual(members[0]!.seen);
    expect(members[1]!.seen).toEqual(Array(10).fill(after));
  },
  LIMIT_MS,
);

test(
  'a rank is killed in the very last step: who has done it waits, before it leaves, for who has not',
  async () => {
    const run = await runElastic({}, { min: 1, env: preloading('die-forwarding') }, 'last-step');
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run) as (Member & { lastStepIn: number })[];
    expect(members.map(({ lastStepIn, generation, steps }) => ({ lastStepIn, generation, steps }))).toEqual([
      { lastStepIn: 1, generation: 1, steps: 3 }, // it got the step from the others
      { lastStepIn: 0, generation: 1, steps: 3 },
      { lastStepIn: 0, generation: 1, steps: 3 },
    ]);
  },
  LIMIT_MS,
);

test(
  'a rank that was just let in is killed in its first step, which some have done, and after which the weights are compared',
  async () => {
    const options = { ranks: 3, min: 2, maxRestarts: 1, env: preloading('die-in-first-step') };
    const run = await runElastic({}, options, 'newcomer-dies');
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toMatchObject([
      { worldSize: 2, generation: 3, steps: 8 },
      { worldSize: 2, generation: 3, steps: 8 },
    ]);
  },
  LIMIT_MS,
);

test(
  'a rank is lost, and another let in, after a checkpoint is resumed and before the first step',
  async () => {
    const checkpoints = mkdtempSync(path.join(tmpdir(), 'gradring-resumed-'));
    try {
      const env = { TEST_CHECKPOINTS: checkpoints };
      finishedAlike(await runElastic({}, { ranks: 3, env }, 'resumed'));
      const run = await runElastic({}, { ranks: 3, min: 2, maxRestarts: 1, env }, 'resumed');
      expect(run.exitCode).toBe(0);
      expect(finishedAlike(run).map(({ at, steps }) => [at.step, steps])).toEqual([
        [2, 4],
        [2, 4],
        [2, 4],
      ]);
    } finally {
      rmSync(checkpoints, { recursive: true });
    }
  },
  LIMIT_MS,
);

test(
  'fewer than allowed: all are started again, resume, and come to the same weights',
  async () => {
    const [undisturbed] = finishedAlike(await runElastic({ epochs: 3 }, {}));
    const dooms = [{ rank: 2, epoch: 1, batch: 3 }] as const;
    const run = await runElastic({ epochs: 3, dooms, checkpoint: true }, { maxRestarts: 1 });
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run);
    expect(members.map(({ at }) => at.epoch)).toEqual([1, 1, 1, 1]);
    expect(members[0]!.hash).toBe(undisturbed!.hash);
    expect(run.told).toEqual([
      'gradring: rank 2 was lost (SIGKILL); 3 ranks left, fewer than 4: all are started again (restart 1 of 1).',
    ]);
  },
  LIMIT_MS,
);

test(
  'no restart is left: the run fails with the exit code of the first loss',
  async () => {
    const dooms = [
      { rank: 2, epoch: 1, batch: 3 },
      { rank: 2, epoch: 0, batch: 1, again: true },
    ] as const;
    const run = await runElastic({ epochs: 3, dooms }, { min: 4, maxRestarts: 1 });
    expect(run.exitCode).toBe(137);
    expect(run.rootCause).toMatchObject({ rank: 2, signal: 'SIGKILL' });
    expect(run.members.every(member => member === undefined)).toBe(true);
    expect(run.told.at(-2)).toBe(
      'gradring: rank 2 was lost (SIGKILL); 3 ranks left, fewer than 4: no restart is left.',
    );
  },
  LIMIT_MS,
);

test(
  'what all ranks fail of is no loss: the run ends, whatever restarts are left',
  async () => {
    const dooms = [0, 1, 2, 3].map(rank => ({ rank, epoch: 1, batch: 1, how: 'throw' }) as const);
    const run = await runElastic({ epochs: 3, dooms }, { min: 1, maxRestarts: 5 });
    expect(run.exitCode).toBe(1);
    expect(run.told.join()).toContain('all failed by themselves');
    expect(run.told.join()).not.toContain('started again');
  },
  LIMIT_MS,
);

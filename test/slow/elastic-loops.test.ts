import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NOTE_FOLDERS } from '../support/rings';
import { finishedAlike, type Member, runElastic } from '../elastic/support';
import { largestError } from '../tensorflow/support';

const LIMIT_MS = 300_000;

const preloading = (fixture: string) => {
  const file = path.join(__dirname, `../elastic/fixtures/${fixture}.js`);
  return { NODE_OPTIONS: `${NOTE_FOLDERS.NODE_OPTIONS} --require ${JSON.stringify(file)}` };
};

test.each([
  { sync: true },
  { sync: false },
  { sync: false, localSteps: 3 }, // killed, and let in, within a round
  { sync: true, accumulate: 3 }, // between two exchanges
])(
  'a custom loop: %j',
  async input => {
    const run = await runElastic(input, { ranks: 3, min: 2, maxRestarts: 1 }, 'loop');
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
  'a rank is killed, and another let in, while gradients are accumulated: no step of the others is lost',
  async () => {
    const input = { sync: false, accumulate: 3, counted: true };
    const run = await runElastic(input, { ranks: 3, min: 2, maxRestarts: 1 }, 'loop');
    expect(run.exitCode).toBe(0);
    // An update is divided by the ranks at launch. Of steps 18 to 20, which are one update, rank 1 takes but the last.
    const all = Array<number>(30).fill(1 / 3 / 3);
    const replaced = all.map((part, step) => (step < 6 || step >= 20 ? part : 0));
    for (const { taken } of finishedAlike(run) as (Member & { taken: number[] })[]) {
      expect(largestError(taken, [...all, ...replaced, ...all])).toBeLessThan(1e-6);
    }
  },
  LIMIT_MS,
);

test.each([{}, { allOrNone: true }])(
  'an abort is not the loss of a rank: the ring ends for all, and forms no more: %j',
  async input => {
    const run = await runElastic(input, { ranks: 3, min: 1, maxRestarts: 0 }, 'abort');
    const aborted = { code: 'ERR_ABORTED' };
    const members = finishedAlike(run);
    expect(members).toHaveLength(3);
    for (const member of members) {
      expect(member).toMatchObject({ first: aborted, later: aborted, worldSize: 3, generation: 0 });
    }
  },
  LIMIT_MS,
);

test(
  'a rank is killed within an epoch: the others divide what is left of its rows',
  async () => {
    const run = await runElastic({}, { min: 2 }, 'rows');
    expect(run.exitCode).toBe(0);
    for (const { steps, taken } of finishedAlike(run) as (Member & { taken: number[][] })[]) {
      expect(steps).toBe(6 + (3 + 1 + 3) + 8); // of 16 rows, in the second epoch 12 from its fourth step on, then 12
      const counts = taken.map(rows => [new Set(rows).size, rows.length]);
      // What the lost rank had read in its last step was not trained: others read it again.
      expect(counts).toEqual([[96, 96], [96, 100], [96, 96]]);
    }
  },
  LIMIT_MS,
); // prettier-ignore

test(
  'so it is with model.fit on tensors that are reshuffled; a newcomer takes its share of the next epoch',
  async () => {
    const run = await runElastic({ tensors: true }, { min: 2, maxRestarts: 1 }, 'rows');
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run) as (Member & { taken: number[][] })[];
    expect(members.map(({ at, worldSize }) => [at.epoch, worldSize])).toEqual([[0, 4], [0, 4], [0, 4], [2, 4]]);
    for (const { steps, taken } of members) {
      expect(steps).toBe(6 + (3 + 1 + 3) + 6); // in the second epoch as above, and then 16 again
      const counts = taken.map(rows => [new Set(rows).size, rows.length]);
      // The lost rank has not trained on the rows of its last step: others have.
      expect(counts).toEqual([[96, 96], [96, 96], [96, 96]]);
    }
  },
  LIMIT_MS,
); // prettier-ignore

test(
  'a rank is killed in the very last step: ranks that have done it wait, before they leave, for those that have not',
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
  'ranks are lost within an evaluation and within a prediction: the others compute all rows, each once',
  async () => {
    const run = await runElastic({}, { ranks: 3, min: 1, maxRestarts: 0 }, 'evaluate');
    const [only, ...others] = finishedAlike(run) as (Member & Record<'alone' | 'together' | 'afterLoss', number> & Record<'expected' | 'predicted', number[]>)[]; // prettier-ignore
    expect([others, run.members.map(member => member !== undefined)]).toEqual([[], [true, false, false, false]]);
    const { alone, together, afterLoss, expected, predicted, worldSize } = only!;
    expect([afterLoss, worldSize]).toEqual([2, 1]);
    expect(together).toBeCloseTo(alone, 5);
    expect(largestError(predicted, expected)).toBeLessThan(1e-6);
  },
  LIMIT_MS,
);

test(
  'a rank is lost within the validation of model.fit: the others compute all rows, each once',
  async () => {
    const run = await runElastic({}, { ranks: 3, min: 1, maxRestarts: 0 }, 'validation');
    const members = finishedAlike(run) as (Member & { alone: number; validated: number[] })[];
    expect(members.map(({ worldSize }) => worldSize)).toEqual([2, 2]);
    for (const { alone, validated } of members) {
      expect(validated).toEqual([members[0]!.validated[0], expect.closeTo(alone, 5)]);
    }
  },
  LIMIT_MS,
);

test(
  'a newcomer goes on with what early stopping has counted, and all find the best epoch',
  async () => {
    const run = await runElastic({}, { ranks: 3, min: 2, maxRestarts: 1 }, 'best');
    const members = finishedAlike(run) as (Member & { initialEpoch: number; epochs: number[]; weight: number })[];
    expect(members.map(({ initialEpoch, epochs }) => [initialEpoch, epochs.at(-1)])).toEqual([
      [0, 4],
      [3, 4],
      [0, 4],
    ]);
    for (const { weight } of members) expect(weight).toBeCloseTo(2.026, 3); // that after the third epoch
  },
  LIMIT_MS,
);

test(
  'ranks are lost between and within collectives of every kind, which the others call again',
  async () => {
    const run = await runElastic({}, { min: 2, maxRestarts: 0 }, 'collectives');
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run) as (Member & { tries: number; refusals: { message: string }[] })[];
    for (const [i, member] of members.entries()) {
      expect(member).toMatchObject({ rank: i, worldSize: 2, generation: 2, tries: 5 });
      expect(member).toMatchObject({ whole: [0, 1, 2, 3], afterFirst: [0, 1, 2], afterSecond: [0, 2] });
      expect(member.refusals).toMatchObject(Array(5).fill({ code: 'ERR_INVALID_ARGUMENT' }));
      const refused = member.refusals.map(({ message }) => /ring\.(\w+) is not for elastic runs/.exec(message)?.[1]);
      expect(refused).toEqual(['group', 'send', 'send', 'receive', 'receive']);
    }
    expect(members).toHaveLength(2);
  },
  LIMIT_MS,
);

test(
  'a rank is lost, and another let in, while a checkpoint is written in the background',
  async () => {
    const run = await runElastic({}, { ranks: 3, min: 2, maxRestarts: 1 }, 'background');
    expect(run.exitCode).toBe(0);
    const name = (step: number) => expect.stringMatching(RegExp(`^save-\\d+-step-${step}$`)) as string;
    for (const [rank, member] of finishedAlike(run).entries()) {
      expect(member).toMatchObject({ at: { step: rank === 1 ? 13 : 0 }, steps: 20, saves: [4, 12, 16, 20] });
      expect(member).toMatchObject({ finished: [expect.stringMatching(/-step-20$/)] });
      if (rank !== 1) expect(member).toMatchObject({ whenJoined: [4] });
      const { all } = member as Member & { all: string[] };
      expect(all.filter(each => each.startsWith('save-'))).toEqual([4, 12, 16, 20].map(name)); // nothing of step 8
    }
    expect(run.output).toContain('A rank was lost before the checkpoint of step 8 was complete. The one before stays.');
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

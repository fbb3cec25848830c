import { EPOCH_STEPS, finishedAlike, runElastic, sizesOf } from '../elastic/support';

const LIMIT_MS = 300_000;

test.each([0, 300])(
  'another rank is killed %i ms after the first: while the loss is noticed, or while the ring forms',
  async afterMs => {
    const dooms = [
      { rank: 2, epoch: 1, batch: 3 },
      { rank: 3, epoch: 1, batch: 3, afterMs },
    ] as const;
    const run = await runElastic({ epochs: 60, dooms }, { min: 2 });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toMatchObject([
      { rank: 0, worldSize: 2 },
      { rank: 1, worldSize: 2 },
    ]);
  },
  LIMIT_MS,
);

test.each([0, 5])(
  'a rank is killed %i ms after a batch, while a sparse reduce-scatter is under way',
  async afterMs => {
    const dooms = [{ rank: 2, epoch: 1, batch: 3, afterMs }] as const;
    const run = await runElastic({ epochs: 40, route: 'scatter', dooms }, { min: 2 });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toMatchObject([{ worldSize: 3 }, { worldSize: 3 }, { worldSize: 3 }]);
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
  ['adam', {}, undefined],
  ['momentum', { GRADRING_TRANSPORT: 'tcp', GRADRING_ENCRYPTION: 'on' }, undefined],
  ['momentum', {}, 'noCompression'],
  ['momentum', {}, 'oneBit'],
  ['momentum', {}, 'qsgd'],
  ['momentum', {}, 'powerSgd'],
  ['momentum', {}, 'lowRank'],
  ['momentum', {}, 'customCompression'],
] as const)(
  'with %s, %j and %s, rank 0 is lost and replaced',
  async (optimizerName, env, compressor) => {
    const dooms = [{ rank: 0, epoch: 0, batch: 3 }] as const;
    const input = { epochs: 3, optimizerName, compressor, dooms, waitForNewcomerAt: [1] };
    const run = await runElastic(input, { ranks: 3, min: 2, maxRestarts: 1, env });
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run);
    expect(members.map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([[3], [2, 2, 3], [2, 2, 3]]);
    for (const member of members) expect(member).toMatchObject({ worldSize: 3, generation: 2, steps: 3 * EPOCH_STEPS });
    expect(members[0]!.at).toMatchObject({ step: 2 * EPOCH_STEPS, epoch: 2 });
  },
  LIMIT_MS,
);

test(
  'the last one left is joined by a rank that is started again',
  async () => {
    const options = { ranks: 2, min: 1, maxRestarts: 1 };
    const dooms = [{ rank: 0, epoch: 0, batch: 3 }] as const;
    const run = await runElastic({ epochs: 4, dooms, waitForNewcomerAt: [2] }, options);
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run).map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([[2], [1, 1, 1, 2]]);
  },
  LIMIT_MS,
);

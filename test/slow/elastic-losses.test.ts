import { finishedAlike, runElastic } from '../elastic/support';

test.each([0, 200, 300, 450])(
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
  300_000,
);

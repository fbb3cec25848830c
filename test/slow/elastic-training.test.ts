import { type ElasticRun, EPOCH_STEPS, finishedAlike, type Member, runElastic, sizesOf } from '../elastic/support';

const LIMIT_MS = 300_000;

describe('three epochs on three ranks', () => {
  const size = { ranks: 3 };
  let plain: Member;
  beforeAll(async () => {
    [plain] = finishedAlike(await runElastic({ epochs: 3 }, size)) as [Member];
  }, LIMIT_MS);

  test(
    'an elastic run without a loss has the bits of one that is not elastic',
    async () => {
      const elastic = finishedAlike(await runElastic({ epochs: 3 }, { ...size, min: 2, maxRestarts: 1 }));
      expect(elastic).toHaveLength(3);
      expect(elastic[0]!.hash).toBe(plain.hash);
      expect(elastic[0]).toMatchObject({ generation: 0, worldSize: 3, steps: 3 * EPOCH_STEPS });
    },
    LIMIT_MS,
  );

  test(
    'fewer than allowed: all are started again, resume, and come to the same weights',
    async () => {
      const dooms = [{ rank: 2, epoch: 1, batch: 3 }] as const;
      const run = await runElastic({ epochs: 3, dooms, checkpoint: true }, { ...size, maxRestarts: 1 });
      expect(run.exitCode).toBe(0);
      const members = finishedAlike(run);
      expect(members.map(({ at }) => at.epoch)).toEqual([1, 1, 1]);
      expect(members[0]!.hash).toBe(plain.hash);
      expect(run.told).toEqual([
        'gradring: rank 2 was lost (SIGKILL); 2 ranks left, fewer than 3: all are started again (restart 1 of 1).',
      ]);
    },
    LIMIT_MS,
  );
});

test(
  'one rank after the other is lost, within an epoch, at the end of one, and by an error of its own: the others go on, with equal weights, and each with its own rows',
  async () => {
    const dooms = [
      { rank: 0, epoch: 1, batch: 3 },
      { rank: 2, epoch: 2, batch: 'end' },
      { rank: 3, epoch: 4, batch: 2, how: 'throw' },
    ] as const;
    const run = await runElastic({ epochs: 5, dooms }, { min: 1 });
    expect(run.exitCode).toBe(0);
    const [last, ...others] = finishedAlike(run);
    expect(others).toEqual([]);
    expect(run.members[1]).toEqual(last);
    const { rank, worldSize, generation, steps, epochsSeen, shardRows } = last!;
    expect({ rank, worldSize, generation, steps, shardRows }).toEqual({
      ...{ rank: 0, worldSize: 1, generation: 3, steps: 5 * EPOCH_STEPS, shardRows: 24 },
    });
    expect(sizesOf(epochsSeen)).toEqual([4, 3, 3, 2, 1]);
    const stands = (ring: number, members: string) => `gradring: generation ${ring} has formed: ${members}.`;
    expect(run.told.filter(line => line.includes(' has formed: '))).toEqual([
      stands(1, '3 ranks, 1, 2, 3'),
      stands(2, '2 ranks, 1, 3'),
      stands(3, '1 rank, 1'),
    ]);
    // Losses that follow each other closely are told in one line.
    const losses = run.told.filter(line => line.includes(' was lost '));
    expect(losses.join(' ')).toMatch(
      /rank 0 was lost \(SIGKILL\).*rank 2 was lost \(SIGKILL\).*rank 3 was lost \(exit code 1\); 1 rank continues\.$/,
    );
  },
  LIMIT_MS,
);

test(
  'a rank that calls process.exit(0) within the training is lost, too, and is replaced',
  async () => {
    const dooms = [{ rank: 2, epoch: 1, batch: 3, how: 'exit' }] as const;
    const run = await runElastic({ epochs: 4, dooms, waitForNewcomerAt: [2] }, { min: 2, maxRestarts: 1 });
    expect(run.exitCode).toBe(0);
    const members = finishedAlike(run);
    expect(members.map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([
      [4, 3, 3, 4],
      [4, 3, 3, 4],
      [4],
      [4, 3, 3, 4],
    ]);
    expect(run.told).toEqual([
      'gradring: generation 1 has formed: 3 ranks, 0, 1, 3.',
      'gradring: rank 2 has called process.exit before the others were done, and without ring.close().',
      'gradring: rank 2 was lost (exit code 0); 3 ranks continue.',
      'gradring: rank 2 is started again (restart 1 of 1), and joins when the others let it in.',
      'gradring: generation 2 has formed: 4 ranks, 0, 1, 2, 3.',
    ]);
  },
  LIMIT_MS,
);

test(
  'if fewer ranks than allowed would be left, it counts as done: the others go on',
  async () => {
    const dooms = [{ rank: 2, epoch: 1, batch: 3, how: 'exit' }] as const;
    const run = await runElastic({ epochs: 2, dooms }, { min: 4, maxRestarts: 1 });
    expect(run.exitCode).toBe(0);
    expect(finishedAlike(run)).toHaveLength(3);
    expect(run.told).toEqual(['gradring: generation 1 has formed: 3 ranks, 0, 1, 3.']);
  },
  LIMIT_MS,
);

describe('ranks that are lost, and replaced at the end of an epoch, in a training that saves', () => {
  let run: ElasticRun;
  let members: readonly Member[];
  beforeAll(async () => {
    const dooms = [
      { rank: 0, epoch: 1, batch: 3 },
      { rank: 3, epoch: 4, batch: 1, how: 'SIGSTOP' },
      { rank: 1, epoch: 6, batch: 1, how: 'hang' },
    ] as const;
    // The missing heartbeats find the one that is stopped, and the deadline of a call finds the one that hangs.
    const env = { GRADRING_HEARTBEAT_TIMEOUT_MS: '3000', GRADRING_TIMEOUT_MS: '10000' };
    const options = { min: 2, maxRestarts: 3, env };
    run = await runElastic({ epochs: 9, dooms, waitForNewcomerAt: [2, 5, 7], checkpoint: true }, options);
    members = finishedAlike(run);
  }, LIMIT_MS);

  test('all come to the end, with the same weights and all steps', () => {
    expect(run.exitCode).toBe(0);
    expect(members).toHaveLength(4);
    for (const member of members) expect(member).toMatchObject({ worldSize: 4, generation: 6, steps: 9 * EPOCH_STEPS });
    expect(members.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
    expect(run.told.at(-1)).toBe('gradring: generation 6 has formed: 4 ranks, 0, 1, 2, 3.');
  });

  test('each newcomer joins where the others are', () => {
    const sizes = [4, 3, 3, 4, 3, 3, 3, 3, 4];
    expect(members.map(({ epochsSeen }) => sizesOf(epochsSeen))).toEqual([
      sizes.slice(3),
      sizes.slice(8),
      sizes,
      sizes.slice(6),
    ]);
    expect(members.map(({ at }) => at)).toMatchObject([
      { step: 3 * EPOCH_STEPS, epoch: 3 },
      { step: 8 * EPOCH_STEPS, epoch: 8 },
      { step: 0, epoch: 0 },
      { step: 6 * EPOCH_STEPS, epoch: 6 },
    ]);
  });

  test.each([
    ['was killed', 0, 1],
    ['was stopped', 3, 2],
    ['hangs', 1, 3],
  ])('one that %s is started again', (_, rank, restart) => {
    expect(run.told).toContain(
      `gradring: rank ${rank} is started again (restart ${restart} of 3), and joins when the others let it in.`,
    );
  });

  test('one that does not answer any more is killed, and that is said', () => {
    const killed = run.told.filter(line => line.includes('does not answer'));
    expect(killed).toEqual([3, 1].map(rank => `gradring: rank ${rank} does not answer, and is killed.`));
  });
});

test(
  'no restart is left: the run fails with the exit code of the first loss',
  async () => {
    const dooms = [
      { rank: 1, epoch: 1, batch: 3 },
      { rank: 1, epoch: 0, batch: 1, again: true },
    ] as const;
    const run = await runElastic({ epochs: 3, dooms }, { ranks: 2, min: 2, maxRestarts: 1 });
    expect(run.exitCode).toBe(137);
    expect(run.rootCause).toMatchObject({ rank: 1, signal: 'SIGKILL' });
    expect(run.members.every(member => member === undefined)).toBe(true);
    expect(run.told.at(-2)).toBe('gradring: rank 1 was lost (SIGKILL); 1 rank left, fewer than 2: no restart is left.');
  },
  LIMIT_MS,
);

test(
  'what all ranks fail of is no loss: the run ends, whatever restarts are left',
  async () => {
    const dooms = [0, 1].map(rank => ({ rank, epoch: 1, batch: 1, how: 'throw' }) as const);
    const run = await runElastic({ epochs: 3, dooms }, { ranks: 2, min: 1, maxRestarts: 5 });
    expect(run.exitCode).toBe(1);
    expect(run.told.join()).toContain('all failed by themselves');
    expect(run.told.join()).not.toContain('started again');
  },
  LIMIT_MS,
);

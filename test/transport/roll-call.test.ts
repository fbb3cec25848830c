import { type RankState, RollCall } from '../../src/transport/control/roll-call';
import { opposite, type Side } from '../../src/transport/ring-place';
import { FrameKind, Operation, Purpose, type StatusHeader } from '../../src/wire/frame';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const state = (sequence: number): RankState => ({
  call: {
    ...{ operation: Operation.Barrier, purpose: Purpose.Call, elementType: 'none', reduction: 'none' },
    ...{ elementCount: 0, parameter: 0 },
  },
  ...{ sequence, isCalling: true, sinceMs: 5, step: 7, settings: { learningRate: 0.1 } },
});

/**
 * Ranks that tell their number as their collective's. Links in `cut` carry nothing: `3` is the one to the right of rank
 * 3.
 */
function ringOf(worldSize: number, cut: number[] = []) {
  const asked: number[] = [];
  const sent = { count: 0 };
  const ranks: RollCall[] = Array.from({ length: worldSize }, (_, rank) => {
    const pass = async (side: Side, status: StatusHeader) => {
      sent.count += 1;
      const to = (rank + (side === 'right' ? 1 : worldSize - 1)) % worldSize;
      await Promise.resolve();
      if (!cut.includes(side === 'right' ? rank : to)) ranks[to]!.hear(opposite(side), status);
    };
    const rollCall = new RollCall({ rank, worldSize }, pass);
    rollCall.attend(
      () => state(rank),
      () => asked.push(rank),
    );
    return rollCall;
  });
  return { ranks, asked, sent };
}

const others = (worldSize: number, rank: number) =>
  Array.from({ length: worldSize }, (_, i) => i).filter(i => i !== rank);

test.each([2, 3, 8])('one of %i asks, and all know what all do', async worldSize => {
  const { ranks, asked, sent } = ringOf(worldSize);
  ranks[1]!.ask('report');
  await jest.advanceTimersByTimeAsync(300);
  ranks.forEach((rollCall, rank) => {
    const answers = rollCall.answers(0);
    expect([...answers.keys()].sort()).toEqual(others(worldSize, rank));
    for (const [other, { sequence, step, isCalling }] of answers)
      expect({ sequence, step, isCalling }).toEqual({ sequence: other, step: 7, isCalling: true });
  });
  expect(asked.sort()).toEqual(others(worldSize, 1)); // once each
  expect(sent.count).toBeLessThanOrEqual(worldSize * (worldSize + 1)); // each status over each link about once
  ranks.forEach(rank => rank.close());
});

test('who can be reached one way or the other is; of who cannot nothing is known', async () => {
  const { ranks, asked } = ringOf(5, [2, 3]); // rank 3 has no link
  ranks[0]!.ask('answers');
  await jest.advanceTimersByTimeAsync(300);
  for (const rank of [0, 1, 2, 4])
    expect([...ranks[rank]!.answers(0).keys()].sort()).toEqual(others(5, rank).filter(other => other !== 3));
  expect(asked).toEqual([]); // that was not for the user
  ranks.forEach(rank => rank.close());
});

test('answers from before the question do not count, and one who is asked often answers now and then', async () => {
  const { ranks, sent } = ringOf(3);
  ranks[0]!.ask('answers');
  await jest.advanceTimersByTimeAsync(250);
  expect([...ranks[0]!.answers(0).keys()].sort()).toEqual([1, 2]);
  expect(ranks[0]!.answers(performance.now())).toEqual(new Map());
  const before = sent.count;
  for (let i = 0; i < 100; i++) {
    ranks[0]!.ask('answers');
    await jest.advanceTimersByTimeAsync(1);
  }
  const questions = 100 * 2 * 2; // each told to both sides, and passed on by both
  expect(sent.count - before).toBeLessThanOrEqual(questions + 2 * 4);
  expect(sent.count - before).toBeGreaterThan(questions);
  ranks.forEach(rank => rank.close());
});

test('a link that takes nothing is not offered more and more', () => {
  let offered = 0;
  const rollCall = new RollCall({ rank: 0, worldSize: 4 }, () => {
    offered += 1;
    return new Promise(() => undefined);
  });
  const { call, ...rest } = state(1);
  for (let round = 1; round <= 1_000; round++) {
    const status = { kind: FrameKind.Status, origin: 2, ...call, ...rest, round, asks: 'nothing' } as const;
    rollCall.hear('left', status);
  }
  expect(offered).toBeLessThan(10);
});

import { clockOffsets, RankFrames } from '../../src/timeline/clock-offsets';
import { random } from '../support/random';

interface SyntheticRing {
  /** How far a rank's clock is ahead of rank 0's, at a time of rank 0's, in µs. */
  readonly offsetAt: (rank: number, time: number) => number;
  /** Of a link, from that rank to the next. */
  readonly leastDelay: (rank: number) => number;
  readonly worldSize: number;
  readonly durationSeconds: number;
}

const START = 1_795_000_000_000_000;

/** A hundred collectives a second, in which each rank sends a frame of its own and forwards those of others. */
function framesOf({ offsetAt, leastDelay, worldSize, durationSeconds }: SyntheticRing): RankFrames[] {
  const next = random(5);
  const ranks = Array.from({ length: worldSize }, () => new RankFrames());
  const add = (rank: number, name: string, time: number, args: Record<string, number>) => {
    const ts = Math.floor(time + offsetAt(rank, time));
    ranks[rank]!.add({ ph: 'X', name, cat: 'span', ts, dur: 1, pid: 1, tid: 1, args });
  };
  for (let sequence = 0; sequence < 100 * durationSeconds; sequence++) {
    for (let origin = 0; origin < worldSize; origin++) {
      let time = START + 10_000 * sequence + 500 * next();
      for (let hop = 0; hop < worldSize - 1; hop++) {
        const rank = (origin + hop) % worldSize;
        add(rank, hop === 0 ? 'send' : 'forward', time, { sequence, part: 0, origin });
        time += leastDelay(rank) + (next() < 0.2 ? 0 : 3_000 * next() ** 2);
        add((rank + 1) % worldSize, 'receive', time, { sequence, part: 0, origin });
        time += 20;
      }
    }
  }
  return ranks;
}

/** The largest error of a corrected time, over all ranks and the whole time. */
function largestError(ring: SyntheticRing): number {
  const offsets = clockOffsets(framesOf(ring))!;
  let largest = 0;
  for (let rank = 0; rank < ring.worldSize; rank++) {
    for (let second = 0; second <= ring.durationSeconds; second += 0.5) {
      const time = START + 1e6 * second;
      const found = offsets[rank]!.correct(Math.floor(time + ring.offsetAt(rank, time)));
      largest = Math.max(largest, Math.abs(found - time));
    }
  }
  return largest;
}

const SECONDS_APART = [0, -3_500_000, 12_345_678, 40, 7_000_000];

test.each([2, 3, 5])('offsets of seconds are found among jittered delays: %d ranks', worldSize => {
  const ring = { worldSize, durationSeconds: 5, leastDelay: () => 60, offsetAt: (r: number) => SECONDS_APART[r]! };
  expect(largestError(ring)).toBeLessThanOrEqual(2 * worldSize); // the clocks' whole microseconds
});

test('they are wrong by as much as the least delays of the links differ', () => {
  const leastDelay = (rank: number) => [60, 160, 80][rank]!; // 100 on the average
  const ring = { worldSize: 3, durationSeconds: 5, leastDelay, offsetAt: (r: number) => SECONDS_APART[r]! };
  const error = largestError(ring);
  expect(error).toBeGreaterThan(35);
  expect(error).toBeLessThanOrEqual(60 + 6);
});

test('clocks that drift apart are followed, from begin to end', () => {
  // 40 parts in a million: 7 ms apart after 3 minutes.
  const offsetAt = (rank: number, time: number) => SECONDS_APART[rank]! + 40e-6 * rank * (time - START);
  expect(largestError({ worldSize: 3, durationSeconds: 180, leastDelay: () => 60, offsetAt })).toBeLessThan(50);
});

test('the numbers of a collective that begins anew within it are told apart', () => {
  const args = { sequence: 1, part: 0, origin: 0 };
  const back = { sequence: 1, part: 0, origin: 1 };
  const event = (name: string, ts: number, of: typeof args) => {
    return { ph: 'X', name, cat: 'span', ts, dur: 1, pid: 1, tid: 1, args: of } as const;
  };
  const [a, b] = [new RankFrames(), new RankFrames()];
  for (const ts of [1_000, 2_000]) a.add(event('send', ts, args));
  for (const ts of [1_140, 2_130]) b.add(event('receive', ts, args)); // 100 ahead, and 40 or 30 on the way
  for (const ts of [1_160, 2_150]) b.add(event('send', ts, back));
  for (const ts of [1_100, 2_080]) a.add(event('receive', ts, back)); // 40 or 30 again
  expect(clockOffsets([a, b])![1]!.mean).toBe(100);
});

test('without a frame over some link there is nothing to say', () => {
  expect(clockOffsets([new RankFrames(), new RankFrames()])).toBeUndefined();
});

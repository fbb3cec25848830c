import type { Communicator, NumericArray } from '../../src/communicator/communicator';
import type { GradringError } from '../../src/errors';
import { casesOf, casesWhere, isSlow, quickTest } from '../support/cases';
import { closeRing, closeRings, connectRing, failureOf, ringOf } from '../support/rings';

afterEach(closeRings);

const matching = (words: RegExp) => expect.stringMatching(words) as string;
const floats = (length: number) => new Float32Array(length);

/** Every collective, called in a sound way. */
const COLLECTIVES: [string, (rank: Communicator) => Promise<unknown>, (rank: Communicator) => unknown][] = [
  ['allReduce', rank => rank.allReduce(floats(8)), rank => rank.allReduceSync(floats(8))],
  ['allGather', rank => rank.allGather(floats(8)), rank => rank.allGatherSync(floats(8))],
  ['reduceScatter', rank => rank.reduceScatter(floats(8)), rank => rank.reduceScatterSync(floats(8))],
  ['broadcast', rank => rank.broadcast(floats(8)), rank => rank.broadcastSync(floats(8))],
  ['barrier', rank => rank.barrier(), rank => rank.barrierSync()],
  [
    'sparseAllReduce',
    rank => rank.sparseAllReduce(sparse([1], [1])),
    rank => rank.sparseAllReduceSync(sparse([1], [1])),
  ],
];

/** All wait in the same way, so one kind of failure is enough for each but allReduce. */
const pick = (...names: string[]) => COLLECTIVES.filter(([name]) => names.includes(name));

function sparse(indices: number[], values: number[], elementCount = 8) {
  return { indices: Uint32Array.from(indices), values: Float32Array.from(values), elementCount };
}

function thrownBy(call: () => unknown): GradringError {
  try {
    call();
  } catch (error) {
    return error as GradringError;
  }
  throw new Error('It was to throw.');
}

describe('wrong arguments', () => {
  let ring: Communicator[];
  beforeAll(async () => {
    ring = await connectRing(2);
  });
  afterAll(() => closeRing(ring));

  const ints = Int32Array.of(1, 2);
  const array = (value: unknown) => value as NumericArray;
  const halves = Uint16Array.of(1);
  const longs = BigInt64Array.of(1n);

  // prettier-ignore
  quickTest.each<[string, (rank: Communicator) => Promise<unknown>, (rank: Communicator) => unknown, RegExp]>([
    ['a mean of int32', r => r.allReduce(ints, { op: 'mean' }), r => r.allReduceSync(ints, { op: 'mean' }), /mean of int32/],
    ['a mean of uint8', r => r.reduceScatter(Uint8Array.of(1), { op: 'mean' }), r => r.reduceScatterSync(Uint8Array.of(1), { op: 'mean' }), /mean of uint8/],
    ['a Uint16Array that may hold anything', r => r.allReduce(halves), r => r.allReduceSync(halves), /bits of a Uint16Array mean: pass \{ as: 'float16' \}/],
    ['floats of 16 bits that are none', r => r.allReduce(ints, { as: 'float16' }), r => r.reduceScatterSync(ints, { as: 'float16' }), /is for a Uint16Array.*not for int32/],
    ['an unknown format', r => r.reduceScatter(halves, { as: 'float8' as never }), r => r.allReduceSync(halves, { as: 'float8' as never }), /as is 'float8'.*float16, bfloat16/],
    ['a mean of 64 bits', r => r.allReduce(longs, { op: 'mean' }), r => r.allReduceSync(longs, { op: 'mean' }), /mean of int64/],
    ['an unknown op', r => r.allReduce(ints, { op: 'median' as never }), r => r.allReduceSync(ints, { op: 'median' as never }), /op is 'median'.*sum, product, mean, min, max/],
    ['a root that is no rank', r => r.broadcast(ints, { root: 2 }), r => r.broadcastSync(ints, { root: 2 }), /root is 2.*0 … 1/],
    ['a negative root', r => r.broadcast(ints, { root: -1 }), r => r.broadcastSync(ints, { root: -1 }), /root is -1/],
    ['a root that is not whole', r => r.broadcast(ints, { root: 0.5 }), r => r.broadcastSync(ints, { root: 0.5 }), /root is 0.5/],
    ['a plain array', r => r.allReduce(array([1, 2])), r => r.allReduceSync(array([1, 2])), /Float32Array, Float64Array/],
    ['an Int16Array', r => r.allGather(array(new Int16Array(2))), r => r.allGatherSync(array(new Int16Array(2))), /Float32Array/],
    ['nothing', r => r.broadcast(array(undefined)), r => r.broadcastSync(array(undefined)), /Float32Array/],
    ['an index past the end', r => r.sparseAllReduce(sparse([8], [1])), r => r.sparseAllReduceSync(sparse([8], [1])), /Index 0 is 8/],
    ['a repeated index', r => r.sparseAllReduce(sparse([3, 3], [1, 1])), r => r.sparseAllReduceSync(sparse([3, 3], [1, 1])), /Index 1 is 3.*ascend/],
    ['descending indices', r => r.sparseAllReduce(sparse([3, 2], [1, 1])), r => r.sparseAllReduceSync(sparse([3, 2], [1, 1])), /ascend/],
    ['fewer values than indices', r => r.sparseAllReduce(sparse([1, 2], [1])), r => r.sparseAllReduceSync(sparse([1, 2], [1])), /2 indices but 1 values/],
    ['NaN', r => r.sparseAllReduce(sparse([1], [NaN])), r => r.sparseAllReduceSync(sparse([1], [NaN])), /Value 0 is NaN/],
    ['infinity', r => r.sparseAllReduce(sparse([1], [-Infinity])), r => r.sparseAllReduceSync(sparse([1], [-Infinity])), /Value 0 is -Infinity/],
    ['a length that is not whole', r => r.sparseAllReduce(sparse([], [], 1.5)), r => r.sparseAllReduceSync(sparse([], [], 1.5)), /elementCount is 1.5/],
    ['plain indices', r => r.sparseAllReduce({ ...sparse([], []), indices: [1] as never }), r => r.sparseAllReduceSync({ ...sparse([], []), indices: [1] as never }), /Uint32Array/],
  ])('%s: told before anything is sent', async (_, call, callSync, words) => {
    const expected = { code: 'ERR_INVALID_ARGUMENT', message: matching(words) };
    expect(await failureOf(call(ring[0]!))).toMatchObject(expected);
    expect(thrownBy(() => callSync(ring[0]!))).toMatchObject(expected);
    // The ring is as good as before.
    const sums = await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(1))));
    expect(sums).toEqual([Int32Array.of(2), Int32Array.of(2)]);
  });
});

describe('a closed communicator', () => {
  test.each(casesOf([2], [1]))('takes no calls, in a ring of %i, and may be closed twice', async worldSize => {
    const ring = await ringOf(worldSize);
    await Promise.all(ring.flatMap(rank => [rank.close(), rank.close()]));
    for (const [, call, callSync] of COLLECTIVES) {
      expect(await failureOf(call(ring[0]!))).toMatchObject({ code: 'ERR_CLOSED' });
      expect(thrownBy(() => callSync(ring[0]!))).toMatchObject({ code: 'ERR_CLOSED' });
    }
    await ring[0]!.close();
  });

  quickTest('finishes what was called before', async () => {
    const ring = await ringOf(3);
    const sums = ring.map(rank => rank.allReduce(floats(100_000).fill(1)));
    await closeRing(ring);
    for (const sum of await Promise.all(sums)) expect(sum.every(value => value === 3)).toBe(true);
  });
});

describe('ranks that call different things', () => {
  const sum = (length: number) => (rank: Communicator) => rank.allReduce(floats(length));

  type Call = (rank: Communicator) => Promise<unknown>;
  type Difference = [name: string, usual: Call, other: Call, usualWords: string, otherWords: string, advice?: string];
  const LENGTH = 'All ranks must pass arrays of the same length.';
  // prettier-ignore
  const DIFFERENCES: Difference[] = [
    ['operations', sum(8), rank => rank.barrier(), 'allReduce(sum, float32[8])', 'barrier()'],
    ['lengths', sum(8), sum(9), 'allReduce(sum, float32[8])', 'allReduce(sum, float32[9])', LENGTH],
    ['long arrays', sum(1_000_000), sum(999_999), 'allReduce(sum, float32[1000000])', 'allReduce(sum, float32[999999])', LENGTH],
    ['sparse lengths', rank => rank.sparseAllReduce(sparse([1], [1], 8)), rank => rank.sparseAllReduce(sparse([1], [1], 9)), 'sparseAllReduce(sum, float32[8])', 'sparseAllReduce(sum, float32[9])', LENGTH],
  ];

  const expectTold = async ([, usual, other, usualWords, otherWords, advice]: Difference, odd: number) => {
    const ring = await ringOf(3);
    const errors = await Promise.all(ring.map(rank => failureOf(rank.rank === odd ? other(rank) : usual(rank))));
    for (const error of errors) {
      expect(error.code).toBe('ERR_COLLECTIVE_MISMATCH');
      expect(error.rank).toBe(errors[0]!.rank);
      expect(error.message).toContain(usualWords);
      expect(error.message).toContain(otherWords);
      expect(error.message).toMatch(/rank \d is in .*, but rank \d is in /);
      expect(error.message).toContain(advice ?? 'All ranks must make the same calls, in the same order.');
    }
  };

  // A ring that has failed is of no use any more: so the odd one is another rank each time, not each every time.
  test.each(
    casesWhere(
      ([name]) => name === 'lengths',
      DIFFERENCES.map((difference, i) => [difference[0], i % 3, difference] as const),
    ),
  )('%s: all ranks are told who called what, rank %i something else', (_, odd, difference) =>
    expectTold(difference, odd),
  );

  if (isSlow) {
    test.each([0, 1, 2])('whichever rank differs, they are told: rank %i', odd => expectTold(DIFFERENCES[0]!, odd));
  }
});

describe('a rank that does not come', () => {
  test.each(casesOf(pick('allReduce'), pick('reduceScatter', 'barrier')))(
    'to %s lets the others run into the deadline, at once the later calls',
    async (name, call) => {
      const late = name === 'allReduce' ? 2 : 1;
      const ring = await ringOf(late + 1, { timeoutMs: 2_000 });
      const present = ring.slice(0, late);
      for (const error of await Promise.all(present.map(rank => failureOf(call(rank))))) {
        expect(error).toMatchObject({
          code: 'ERR_TIMEOUT',
          rank: late,
          message: matching(new RegExp(`2000 ms.*rank ${late} has not called`)),
        });
        expect(error.details.operation).toContain(name);
      }
      // What the late rank calls may begin before it has heard of the failure, but it ends alike.
      expect(await failureOf(ring[late]!.barrier())).toMatchObject({ code: 'ERR_TIMEOUT' });
      for (const rank of ring) {
        const expected = { code: 'ERR_TIMEOUT', message: matching(/has failed and cannot be used any more/) };
        expect(await failureOf(rank.barrier())).toMatchObject(expected);
        expect(thrownBy(() => rank.allReduceSync(floats(4)))).toMatchObject(expected);
      }
    },
  );

  quickTest(
    'to a broadcast of more than the buffers hold: likewise, and when it is only late, nothing happens',
    async () => {
      const root = await ringOf(2, { timeoutMs: 300 });
      expect(await failureOf(root[0]!.broadcast(floats(8e6)))).toMatchObject({ code: 'ERR_TIMEOUT' });

      const [first, second] = await ringOf(2, { heartbeatTimeoutMs: 300 });
      const early = first!.broadcast(floats(8e6).fill(5));
      await new Promise(resolve => setTimeout(resolve, 1_000));
      expect((await second!.broadcast(floats(8e6))).at(-1)).toBe(5);
      await early;
    },
  );
});

describe('a rank that leaves', () => {
  test.each(casesOf(pick('allReduce'), pick('allGather', 'broadcast', 'sparseAllReduce')))(
    'while others wait in %s fails them, and is named',
    async (name, call) => {
      const ring = await ringOf(name === 'allReduce' ? 4 : 2);
      const waiting = ring.filter(rank => rank.rank !== 1).map(rank => failureOf(call(rank)));
      await new Promise(resolve => setTimeout(resolve, 20));
      await ring[1]!.close();
      for (const error of await Promise.all(waiting)) {
        expect(error).toMatchObject({
          code: 'ERR_PEER_LOST',
          rank: 1,
          message: matching(/Rank 1 .*has left the ring/),
        });
      }
    },
  );

  quickTest('after its last collective lets the others finish it', async () => {
    const ring = await ringOf(4);
    const sums = await Promise.all(
      ring.map(async rank => {
        const sum = await rank.allReduce(floats(50_000).fill(rank.rank));
        await rank.close();
        return sum;
      }),
    );
    for (const sum of sums) expect(sum.every(value => value === 6)).toBe(true);
  });
});

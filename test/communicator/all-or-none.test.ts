import type { Communicator } from '../../src/communicator/communicator';
import { closeRing, connectRing, failureOf } from '../support/rings';

let ring: Communicator[];
beforeAll(async () => {
  ring = await connectRing(3);
});
afterAll(() => closeRing(ring));

/** Calls it on all ranks; `run` gets the rank. */
const failures = (run: (rank: number) => unknown) =>
  Promise.all(ring.map(each => failureOf(each.allOrNone(async () => run(each.rank)))));

test('the result is that of all ranks, in whatever order its properties were set', async () => {
  const results = ring.map(each =>
    each.allOrNone(async () => {
      const [sum] = await each.allReduce(Int32Array.of(1));
      return each.rank === 1 ? { sum, nothing: null } : { nothing: null, sum };
    }),
  );
  expect(await Promise.all(results)).toEqual(Array(3).fill({ sum: 3, nothing: null }));
  expect(await Promise.all(ring.map(each => each.allOrNone(() => each.barrier())))).toEqual(Array(3).fill(undefined));
});

test('if results differ, all ranks say which, and the ring goes on', async () => {
  for (const error of await failures(rank => ({ part: rank === 0 ? 0 : 1 }))) {
    expect(error).toMatchObject({ code: 'ERR_RESULTS_DIFFER', rank: 1 });
    expect(error.message).toMatch(/but rank 1, rank 2 returned another value than rank 0/);
  }
  const sums = ring.map(each => each.allOrNone(async () => (await each.allReduce(Int32Array.of(1)))[0]));
  expect(await Promise.all(sums)).toEqual([3, 3, 3]);
});

test('if it fails on one rank, that rank has its own error, and the others learn of it', async () => {
  const [first, second, third] = await failures(rank => {
    if (rank === 2) throw new RangeError('no rows');
    return 7;
  });
  for (const error of [first, second]) expect(error).toMatchObject({ code: 'ERR_RESULTS_DIFFER', rank: 2 });
  expect(first!.message).toMatch(/but rank 2 threw: no rows$/);
  expect(third).toBeInstanceOf(RangeError);
});

test('a result that JSON would change is refused, with the place', async () => {
  for (const error of await failures(() => ({ losses: [1, NaN] }))) {
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(error.message).toMatch(/ring\.allOrNone cannot give back result\.losses\[1\]: it is NaN/);
  }
});

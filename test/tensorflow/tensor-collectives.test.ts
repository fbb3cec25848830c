import * as tf from '@tensorflow/tfjs';
import { Ring } from '../../src/tensorflow/ring';
import { quickTest } from '../support/cases';
import { coded } from '../support/coded';
import { failureOf, freePort } from '../support/rings';
import { type Failure, RING_SIZES, runFixture, runScenariosInRings } from './support';

describe.each([1, 2, 3])('%d ranks', worldSize => {
  let ring: Ring[];
  beforeAll(async () => {
    await tf.setBackend('cpu');
    const masterPort = await freePort();
    const ranks = [...Array(worldSize).keys()];
    ring = await Promise.all(ranks.map(rank => Ring.connect({ rank, worldSize, masterPort })));
  });
  afterAll(() => Promise.all(ring.map(each => each.close())));

  const all = <T>(call: (rank: Ring) => Promise<T>) => Promise.all(ring.map(call));
  const shown = (tensor: tf.Tensor | undefined) =>
    tensor && { shape: tensor.shape, dtype: tensor.dtype, values: Array.from(tensor.dataSync()) };
  const sum = (worldSize * (worldSize - 1)) / 2;

  quickTest('come back with their shape and type, and the given ones do not change', async () => {
    const own = ring.map(({ rank }) => tf.tensor3d([[[rank, 1]], [[2, -3]]]));
    const before = tf.memory().numTensors;
    const sums = await all(each => each.allReduce(own[each.rank]!));
    const all3 = { shape: [2, 1, 2], dtype: 'float32' };
    expect(sums.map(shown)).toEqual(
      ring.map(() => ({ ...all3, values: [sum, worldSize, 2 * worldSize, -3 * worldSize] })),
    );
    const last = await all(each => each.broadcast(own[each.rank]!, { root: worldSize - 1 }));
    expect(last.map(shown)).toEqual(ring.map(() => ({ ...all3, values: [worldSize - 1, 1, 2, -3] })));
    const moved = await all(each => each.sendReceive(own[each.rank]!));
    expect(moved.map(each => each.dataSync()[0])).toEqual(ring.map(({ rank }) => (rank + worldSize - 1) % worldSize));
    const reduced = await all(each => each.reduce(own[each.rank]!, { root: worldSize - 1, op: 'max' }));
    expect(reduced.map(shown)).toEqual(
      ring.map(({ rank }) => (rank === worldSize - 1 ? { ...all3, values: [worldSize - 1, 1, 2, -3] } : undefined)),
    );
    expect(own.map(each => each.dataSync()[0])).toEqual(ring.map(({ rank }) => rank));
    tf.dispose([sums, last, moved, reduced.filter(each => each !== undefined)]);
    expect(tf.memory().numTensors).toBe(before);
  });

  quickTest('of int32 and bool, gathered', async () => {
    const whole = await all(each => each.allGather(tf.tensor1d([each.rank, 2 ** 30], 'int32')));
    for (const gathered of whole) {
      expect(gathered.map(shown)).toEqual(
        ring.map(({ rank }) => ({ shape: [2], dtype: 'int32', values: [rank, 2 ** 30] })),
      );
    }
    const scalars = await all(each => each.gather(tf.scalar(each.rank === 0, 'bool')));
    expect(scalars.map(each => each?.map(shown))).toEqual(
      ring.map(({ rank }) =>
        rank === 0 ? ring.map((_, from) => ({ shape: [], dtype: 'bool', values: [Number(from === 0)] })) : undefined,
      ),
    );
    const any = await all(each => each.allReduce(tf.tensor1d([each.rank === 0, false], 'bool'), { op: 'max' }));
    expect(any.map(shown)).toEqual(ring.map(() => ({ shape: [2], dtype: 'bool', values: [1, 0] })));
  });

  quickTest('divided between the ranks, exchanged, and sent', async () => {
    const numbers = (count: number) => tf.range(0, count, 1, 'int32');
    const from = numbers(4 * worldSize);
    const parts = await all(each =>
      each.scatter(tf.zeros([2, 2], 'int32'), { ...(each.rank === 0 && { from }), root: 0 }),
    );
    expect(parts.map(shown)).toEqual(
      ring.map((_, rank) => ({ shape: [2, 2], dtype: 'int32', values: [0, 1, 2, 3].map(i => 4 * rank + i) })),
    );
    const exchanged = await all(each => each.allToAll(tf.fill([worldSize, 2], each.rank)));
    expect(exchanged.map(shown)).toEqual(
      ring.map(() => ({ shape: [worldSize, 2], dtype: 'float32', values: ring.flatMap((_, rank) => [rank, rank]) })),
    );
    const chunks = await all(each => each.reduceScatter(numbers(2 * worldSize).reshape([2, worldSize])));
    expect(chunks.map(shown)).toEqual(
      ring.map((_, rank) => ({
        ...{ shape: [2], dtype: 'int32' },
        values: [2 * rank * worldSize, (2 * rank + 1) * worldSize],
      })),
    );
    if (worldSize === 1) return;
    const [received] = await Promise.all([ring[0]!.receive(1), ring[1]!.send(tf.tensor2d([[1, 2]]), 0)]);
    expect(received).toEqual(Float32Array.of(1, 2));
  });

  quickTest('calls of tensors and arrays that are not awaited keep their order', async () => {
    const results = await all(each =>
      Promise.all([each.allReduce(tf.scalar(1)), each.allReduce(Int32Array.of(1, 1)), each.allReduce(tf.ones([3]))]),
    );
    expect(results.map(([, array]) => array)).toEqual(ring.map(() => Int32Array.of(worldSize, worldSize)));
  });

  quickTest('others are refused before anything is sent', async () => {
    const [first] = ring as [Ring];
    const gone = tf.scalar(1);
    gone.dispose();
    const failures = await Promise.all(
      [
        () => first.allReduce(gone),
        () => first.broadcast(tf.tensor1d(['a'])),
        () => first.allGather(tf.complex([1], [2])),
        () => first.allReduce(tf.scalar(true)),
        () => first.reduce(tf.scalar(true), { op: 'mean' }),
        () => first.allReduce(tf.scalar(1, 'int32'), { op: 'mean' }),
        () => first.gather(tf.scalar(1), { variableLength: true }),
        () => first.reduceScatter(tf.scalar(true)),
        () => first.scatter(tf.scalar(1), { from: tf.tensor1d(['a']) }),
        () => first.send(gone, (worldSize - 1) as never),
        () => first.allReduce(tf.scalar(1), { root: 1 } as never),
      ].map(call => failureOf(call())),
    );
    expect(failures.map(({ code }) => code)).toEqual(failures.map(() => 'ERR_INVALID_ARGUMENT'));
    await all(each => each.barrier());
  });
});

// A rank that sleeps needs a process of its own.
describe.each(RING_SIZES)('%d ranks, in processes', worldSize => {
  const results = runScenariosInRings('tensor-collectives.js', worldSize);

  test('the Sync forms give new tensors, the same ones as the others', () => {
    for (const pairs of results<Record<string, { asleep: unknown; awake: unknown; isNew: boolean }>>('both')) {
      expect(Object.keys(pairs)).toHaveLength(9);
      for (const { asleep, awake, isNew } of Object.values(pairs)) expect([asleep, isNew]).toEqual([awake, true]);
      const sums = [(worldSize * (worldSize - 1)) / 2, ...Array<number>(2 * worldSize - 1).fill(worldSize)];
      expect(pairs['allReduce']!.asleep).toEqual({ shape: [worldSize, 2], dtype: 'float32', values: sums });
    }
    const sent = worldSize === 1 ? [null] : [...Array<null>(worldSize - 1).fill(null), [0, ...Array<number>(2 * worldSize - 1).fill(1)]]; // prettier-ignore
    expect(results('message')).toEqual(sent);
  });

  test('a group trains by itself: its ranks have the same weights, and other groups have others', () => {
    const hashes = results<{ before: string; after: string }>('group');
    expect(hashes).toHaveLength(worldSize);
    for (const [rank, { before, after }] of hashes.entries()) {
      expect(after).toBe(hashes[rank % 2]!.after);
      expect(after).not.toBe(before);
    }
    expect(new Set(hashes.map(({ after }) => after)).size).toBe(Math.min(worldSize, 2));
  });
});

quickTest('tensors of another copy of TensorFlow.js are refused, with how to find and mend that', async () => {
  const [failures] = (await runFixture<Record<string, Failure>>('other-copy.js', { ranks: 1 })) as [object];
  const refused = coded(
    /^The tensor comes from another copy of @tensorflow\/tfjs.*npm ls @tensorflow\/tfjs-core.*npm install.*doctor/,
  );
  expect(failures).toEqual({ allReduce: refused, scatter: refused });
});

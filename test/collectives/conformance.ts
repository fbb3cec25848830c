import type { Communicator, NumericArray, Reduction } from '../../src/communicator/communicator';
import type { ConnectInput } from '../../src/rendezvous/connect-options';
import { closeRing, connectRing } from '../support/rings';
import {
  chunkStart,
  expectSameBits,
  input,
  reduced,
  reductionOf,
  reductionsOf,
  sparseInput,
  sparseSum,
  type TypeName,
  TYPES,
} from './reference';

const TYPE_NAMES = Object.keys(TYPES) as TypeName[];
/** The longest and the shortest: collectives that only move elements know a type by its size. */
const MOVED: readonly TypeName[] = ['float64', 'uint8'];
const PRIME = 1_009;
/** Several segments of 1 MiB in each chunk, in the longer types and small rings; and not a multiple of anything. */
const lengthOf = (worldSize: number) => (worldSize < 4 ? 800_003 : 200_003);
/** Of a reduction. The reference is slow for BigInt, which has two segments then, and short types have one anyway. */
const longOf = (type: TypeName, worldSize: number) => {
  const most = { int64: 400_003, uint64: 400_003, float16: 200_003, bfloat16: 200_003, uint8: 200_003 };
  return Math.min(lengthOf(worldSize), most[type as keyof typeof most] ?? Infinity);
};
/** On two ranks each chunk has eight segments, in two blocks of four. */
const BLOCKS = 2_200_001;

const lengthsFor = (worldSize: number) => [...new Set([0, 1, worldSize - 1, worldSize, worldSize + 1, PRIME])];

/** Declares the tests of all collectives in rings of these sizes, over these links. Reductions are of these types. */
export function testConformance(links: ConnectInput, worldSizes: readonly number[], types = TYPE_NAMES): void {
  describe.each(worldSizes)('a ring of %i', worldSize => {
    const LONG = lengthOf(worldSize);
    let ring: Communicator[];
    beforeAll(async () => {
      ring = await connectRing(worldSize, links);
    });
    afterAll(() => closeRing(ring));

    /** Calls on all ranks at once; the results by rank. */
    const onAll = <T>(call: (rank: Communicator) => Promise<T>) => Promise.all(ring.map(call));
    const inputsOf = (type: TypeName, length: number, seed: number): NumericArray[] =>
      ring.map(({ rank }) => input(type, length, rank, seed));

    /** @param members The ring, or a group. The inputs are those of its ranks in the ring. */
    const checkAllReduce = async (type: TypeName, length: number, op: Reduction, members = ring, own = inputsOf) => {
      const inputs = own(type, length, 1);
      const expected = reduced(inputs, op, type);
      const results = await Promise.all(members.map((each, i) => each.allReduce(inputs[i]!, reductionOf(type, op))));
      results.forEach((result, rank) => {
        expect(result).toBe(inputs[rank]); // in place
        expectSameBits(result, expected, `${op} of ${type}[${length}] on rank ${rank}`);
      });
    };

    const checkReduceScatter = async (
      type: TypeName,
      length: number,
      op: Reduction,
      members = ring,
      own = inputsOf,
    ) => {
      const inputs = own(type, length, 2);
      const before = inputs.map(array => array.slice());
      const expected = reduced(inputs, op, type);
      const results = await Promise.all(
        members.map((each, i) => each.reduceScatter(inputs[i]!, reductionOf(type, op))),
      );
      results.forEach((result, rank) => {
        const [start, end] = [rank, rank + 1].map(chunk => chunkStart(length, members.length, chunk));
        expectSameBits(result, expected.slice(start, end), `chunk ${rank} of ${op} of ${type}[${length}]`);
        expectSameBits(inputs[rank]!, before[rank]!, `the input of rank ${rank}, which is not to be changed`);
      });
    };

    const checkAllGather = async (type: TypeName, lengthOf: (rank: number) => number, variableLength: boolean) => {
      const inputs = ring.map(({ rank }) => input(type, lengthOf(rank), rank, 3));
      const results = await onAll(rank => rank.allGather(inputs[rank.rank]!, { variableLength }));
      results.forEach((arrays, rank) => {
        expect(arrays).toHaveLength(worldSize);
        arrays.forEach((array, origin) =>
          expectSameBits(array, inputs[origin]!, `${type} of rank ${origin}, gathered on rank ${rank}`),
        );
      });
    };

    const checkBroadcast = async (type: TypeName, length: number, root: number) => {
      const inputs = inputsOf(type, length, 4);
      const expected = inputs[root]!.slice();
      const results = await onAll(rank => rank.broadcast(inputs[rank.rank]!, { root }));
      results.forEach((result, rank) => {
        expect(result).toBe(inputs[rank]);
        expectSameBits(result, expected, `${type}[${length}] from ${root} on rank ${rank}`);
      });
    };

    const checkSendReceive = async (type: TypeName, length: number) => {
      const inputs = inputsOf(type, length, 6);
      const before = inputs.map(array => array.slice());
      const results = await onAll(rank => rank.sendReceive(inputs[rank.rank]!));
      results.forEach((result, rank) => {
        expect(result).toBe(inputs[rank]);
        const left = (rank + worldSize - 1) % worldSize;
        expectSameBits(result, before[left]!, `${type}[${length}] of rank ${left}, received on rank ${rank}`);
      });
    };

    const checkSparseAllReduce = async (elementCount: number, density: number) => {
      const inputs = ring.map(({ rank }) => sparseInput(elementCount, density, rank, 5));
      const expected = sparseSum(inputs);
      const results = await onAll(rank => rank.sparseAllReduce(inputs[rank.rank]!));
      results.forEach((result, rank) => expectSameBits(result, expected, `sparse sum on rank ${rank}`));
    };

    test.each(types)('all-reduces and reduce-scatters %s', async type => {
      for (const length of lengthsFor(worldSize)) {
        // Without awaiting: the calls run one after the other, in the same order on all ranks.
        await Promise.all(
          reductionsOf(type).flatMap(op => [checkAllReduce(type, length, op), checkReduceScatter(type, length, op)]),
        );
      }
      const long = longOf(type, worldSize);
      await Promise.all([checkAllReduce(type, long, 'sum'), checkReduceScatter(type, long, 'max')]);
    });

    if (worldSize === 2) {
      test('all-reduces and reduce-scatters what takes several rounds', () =>
        Promise.all([checkAllReduce('float32', BLOCKS, 'sum'), checkReduceScatter('float32', BLOCKS, 'sum')]));
    }

    test.each(MOVED)('all-gathers %s, of equal and of different lengths', async type => {
      await Promise.all(
        lengthsFor(worldSize).flatMap(length => [
          checkAllGather(type, () => length, false),
          checkAllGather(type, rank => rank * length, true), // rank 0 has nothing
        ]),
      );
      await checkAllGather(type, rank => (rank === worldSize - 1 ? LONG : rank), true);
      if (type === 'float64') await checkAllGather(type, () => LONG, false);
    });

    test.each(MOVED)('broadcasts %s from every root', async type => {
      for (const { rank: root } of ring) {
        await Promise.all(lengthsFor(worldSize).map(length => checkBroadcast(type, length, root)));
      }
      await checkBroadcast(type, LONG, worldSize - 1);
    });

    test.each(MOVED)('sends %s to the right while it receives from the left', async type => {
      await Promise.all(lengthsFor(worldSize).map(length => checkSendReceive(type, length)));
      await checkSendReceive(type, Math.ceil(5_000_000 / TYPES[type].BYTES_PER_ELEMENT)); // more segments than may be in flight
    });

    test.each(MOVED)('reduces %s on a root, gathers it there, scatters it from there, and exchanges it', async type => {
      for (const { rank: root } of ring) {
        const inputs = inputsOf(type, PRIME, 7);
        const expected = reduced(inputs, 'product', type);
        const results = await onAll(rank => rank.reduce(inputs[rank.rank]!.slice(), { op: 'product', root }));
        const gathered = await onAll(rank => rank.gather(inputs[rank.rank]!, { root }));
        const from = input(type, PRIME * worldSize, root, 8);
        const scattered = await onAll(rank =>
          rank.scatter(new TYPES[type](PRIME), { root, ...(rank.rank === root && { from }) }),
        );
        ring.forEach(({ rank }) => {
          const partOf = (array: NumericArray, i: number) => array.slice(i * PRIME, (i + 1) * PRIME);
          expectSameBits(scattered[rank]!, partOf(from, rank), `part ${rank} of ${type}, scattered from ${root}`);
          expect(results[rank] === undefined && gathered[rank] === undefined).toBe(rank !== root);
          if (rank !== root) return;
          expectSameBits(results[rank]!, expected, `the product of ${type} on ${root}`);
          gathered[rank]!.forEach((array, i) => expectSameBits(array, inputs[i]!, `${type} of ${i}, on ${root}`));
        });
      }
      const whole = inputsOf(type, PRIME * worldSize, 9);
      const exchanged = await onAll(rank => rank.allToAll(whole[rank.rank]!));
      exchanged.forEach((array, rank) =>
        ring.forEach((_, from) =>
          expectSameBits(
            array.slice(from * PRIME, (from + 1) * PRIME),
            whole[from]!.slice(rank * PRIME, (rank + 1) * PRIME),
            `part ${from} of ${type} on rank ${rank}`,
          ),
        ),
      );
    });

    test.each(MOVED)('sends %s from every rank to every other, all at once', async type => {
      const LONGER = Math.ceil(5_000_000 / TYPES[type].BYTES_PER_ELEMENT); // more parts than may be in flight
      for (const length of [0, 1, PRIME, ...(worldSize < 4 ? [LONGER] : [])]) {
        const pairs = ring.flatMap(({ rank: from }) => ring.filter(to => to.rank !== from).map(to => ({ from, to })));
        await Promise.all(
          pairs.map(async ({ from, to }) => {
            const sent = input(type, length, from, to.rank);
            const [received] = await Promise.all([to.receive(from), ring[from]!.send(sent, to.rank)]);
            expectSameBits(received, sent, `${type}[${length}] of ${from} on rank ${to.rank}`);
          }),
        );
      }
    });

    test('sends objects with typed arrays in them', async () => {
      const valueOf = (rank: number) => ({
        ...{ rank, nothing: null, text: 'é\u0000', list: [1, [], { deep: Float32Array.of(1.5, -0) }] },
        arrays: TYPE_NAMES.map(type => input(type, 3, rank, 10)), // each begins where the one before it ends
        ['__proto__x']: { __proto: 1 },
        small: [Int8Array.of(-rank), new Float64Array(0), BigUint64Array.of(2n ** 64n - 1n)],
      });
      const all = ring.map(({ rank }) => valueOf(rank));
      for (const { rank: root } of ring) {
        const copies = await onAll(each => each.broadcastObject(each.rank === root ? all[root] : undefined, { root }));
        const gathered = await onAll(each => each.gatherObject(all[each.rank], { root }));
        for (const { rank } of ring) {
          expect(copies[rank]).toEqual(valueOf(root));
          expect(copies[rank] === all[root]).toBe(rank === root);
          expect(gathered[rank]).toEqual(rank === root ? all : undefined);
        }
      }
      const long = { array: input('float64', LONG, 0, 11) };
      const own = ring.map(({ rank }) => (rank === 0 ? long : rank === 1 ? undefined : [rank]));
      const lists = await onAll(each => each.allGatherObject(own[each.rank]));
      for (const [first, ...others] of lists) {
        expectSameBits((first as typeof long).array, long.array, 'the long array of rank 0');
        expect(others).toEqual(own.slice(1));
      }
    });

    test('divides into groups, whose reductions are of their ranks only', async () => {
      const FEW: readonly TypeName[] = ['float32', 'int64'];
      const last = worldSize - 1;
      const divisions = [
        { colourOf: (rank: number) => rank % 2, types: worldSize < 4 ? types : FEW },
        // One is alone, and one has no group.
        { colourOf: (rank: number) => (rank === 0 ? 'alone' : rank === last ? null : 7), types: FEW },
      ];
      for (const { colourOf, types } of divisions) {
        const groups = await onAll(each => each.group(colourOf(each.rank)));
        expect(groups.map(group => group === undefined)).toEqual(ring.map(({ rank }) => colourOf(rank) === null));
        const colours = new Set<unknown>(ring.map(({ rank }) => colourOf(rank)).filter(colour => colour !== null));
        const checks = [...colours].flatMap(colour => {
          const ranks = [...ring.keys()].filter(rank => colourOf(rank) === colour);
          const members = ranks.map(rank => groups[rank]!);
          expect(members.map(({ rank, worldSize }) => [rank, worldSize])).toEqual(
            ranks.map((_, i) => [i, ranks.length]),
          );
          const inputs = (type: TypeName, length: number, seed: number) =>
            ranks.map(rank => input(type, length, rank, seed));
          return types.flatMap(type =>
            reductionsOf(type).flatMap(op => [
              checkAllReduce(type, PRIME, op, members, inputs),
              checkReduceScatter(type, PRIME, op, members, inputs),
            ]),
          );
        });
        await Promise.all([...checks, checkAllReduce('float32', PRIME, 'sum')]); // that one in the whole ring
        await Promise.all(groups.map(group => group?.close()));
      }
    });

    test('adds sparse arrays in the order of ranks', async () => {
      for (const length of lengthsFor(worldSize)) {
        await Promise.all([0, 0.1, 1].map(density => checkSparseAllReduce(length, density)));
      }
      await checkSparseAllReduce(150_003, 0.5); // more entries than fit the scratch at once
    });

    test('runs calls of all kinds, made without awaiting, in the order of the calls', async () => {
      await Promise.all([
        checkAllReduce('float32', PRIME, 'mean'),
        checkBroadcast('uint8', PRIME, worldSize - 1),
        checkSparseAllReduce(PRIME, 0.3),
        onAll(rank => rank.barrier()),
        checkAllGather('float64', rank => rank + 1, true),
        checkReduceScatter('int32', PRIME, 'sum'),
        checkAllReduce('float64', 100_003, 'sum'),
        checkSendReceive('float32', PRIME),
        checkAllGather('int32', () => 3, false),
      ]);
    });

    test('takes its arguments when it is called', async () => {
      const arrays = ring.map(({ rank }) => Float32Array.of(rank + 1));
      const results = ring.map((rank, i) => rank.allReduce(arrays[i]!));
      arrays.forEach(array => array.fill(1_000));
      await Promise.all(results);
      arrays.forEach(array => expect(array[0]).toBe((worldSize * (worldSize + 1)) / 2));
    });

    test('reads views into larger arrays, aligned or not, and writes nowhere else', async () => {
      const results = await onAll(async rank => {
        const around = new Uint8Array(32).fill(7);
        await rank.allReduce(around.subarray(3, 20), { op: 'sum' });
        return around;
      });
      for (const around of results) {
        expect([...around]).toEqual([...around.keys()].map(i => (i >= 3 && i < 20 ? (7 * worldSize) % 256 : 7)));
      }
    });

    test('counts the bytes of the least possible traffic, and little more', async () => {
      const before = ring.map(({ traffic }) => traffic.bytesSent);
      await onAll(rank => rank.allReduce(new Float32Array(LONG)));
      const least = (2 * (worldSize - 1) * LONG * 4) / worldSize;
      ring.forEach(({ traffic }, rank) => {
        const sent = traffic.bytesSent - before[rank]!;
        expect(sent).toBeGreaterThanOrEqual(Math.floor(least) - 16);
        expect(sent).toBeLessThanOrEqual(least * 1.02);
      });
    });
  });
}

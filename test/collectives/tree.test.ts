import path from 'node:path';
import { Communicator, type Reduction } from '../../src/communicator/communicator';
import type { ConnectInput } from '../../src/rendezvous/connect-options';
import { prefersTree } from '../../src/rendezvous/algorithm';
import { cleanUpRanks, closeRing, connectRing, failureOf, freePort, startRanks } from '../support/rings';
import { chunkStart, expectSameBits, input, reduced, reducedByTree, type TypeName, TYPES } from './reference';

const PRIME = 1_009;

afterAll(cleanUpRanks);

describe.each<[string, ConnectInput]>([
  ['ipc', { transport: 'ipc' }],
  ['tcp', { transport: 'tcp', encryption: 'off' }],
  ['encrypted links', { transport: 'tcp', encryption: 'on', runToken: 'ab'.repeat(32) }],
])('over %s', (_name, links) => {
  describe.each([2, 3, 4, 7])('a tree of %i', worldSize => {
    let ring: Communicator[];
    beforeAll(async () => {
      ring = await connectRing(worldSize, { ...links, algorithm: 'tree' });
    });
    afterAll(() => closeRing(ring));

    const checkAllReduce = async (type: TypeName, length: number, op: Reduction, expected = reducedByTree) => {
      const inputs = ring.map(({ rank }) => input(type, length, rank, 1));
      const sum = expected(inputs, op);
      await Promise.all(ring.map(each => each.allReduce(inputs[each.rank]!, { op })));
      inputs.forEach((result, rank) => expectSameBits(result, sum, `${op} of ${type}[${length}] on rank ${rank}`));
    };

    test.each(Object.keys(TYPES) as TypeName[])('all-reduces %s', async type => {
      const operations: Reduction[] = type.startsWith('float') ? ['sum', 'mean', 'min', 'max'] : ['sum', 'min', 'max'];
      for (const length of [0, 1, worldSize + 1, PRIME]) {
        await Promise.all(operations.map(op => checkAllReduce(type, length, op)));
      }
    });

    test('all-reduces arrays of several segments, up to half a MiB a rank; larger ones by the ring', async () => {
      const most = worldSize * 128 * 1024;
      await checkAllReduce('float32', most, 'sum');
      await checkAllReduce('float32', most + 1, 'sum', reduced);
    });

    test('reduce-scatters', async () => {
      const inputs = ring.map(({ rank }) => input('float32', PRIME, rank, 2));
      const expected = reducedByTree(inputs, 'sum');
      const results = await Promise.all(ring.map(each => each.reduceScatter(inputs[each.rank]!)));
      results.forEach((result, rank) => {
        const [start, end] = [chunkStart(PRIME, worldSize, rank), chunkStart(PRIME, worldSize, rank + 1)];
        expectSameBits(result, expected.slice(start, end), `chunk ${rank}`);
      });
    });

    test('holds everybody at a barrier until the last has come, whoever that is', async () => {
      for (const late of ring) {
        const passed: number[] = [];
        const others = ring.filter(rank => rank !== late);
        const waiting = others.map(rank => rank.barrier().then(() => passed.push(rank.rank)));
        await new Promise(resolve => setTimeout(resolve, 30));
        expect(passed).toEqual([]);
        await Promise.all([late.barrier(), ...waiting]);
      }
    });

    const checkBroadcast = async (length: number, root: number) => {
      const inputs = ring.map(({ rank }) => input('float32', length, rank, 4));
      const expected = inputs[root]!.slice();
      await Promise.all(ring.map(each => each.broadcast(inputs[each.rank]!, { root })));
      inputs.forEach((result, rank) => expectSameBits(result, expected, `from ${root} on rank ${rank}`));
    };

    test('runs calls of all kinds, made without awaiting, in their order', async () => {
      await Promise.all(
        Array.from({ length: 8 }, (_, i) => [
          checkAllReduce('float32', PRIME + i, 'sum'),
          ...ring.map(rank => rank.barrier()),
          checkAllReduce('float64', worldSize * 65_536 + 1, 'mean', reduced),
          checkAllReduce('float64', worldSize * 65_536, 'mean'),
          checkBroadcast(i % 2 === 0 ? PRIME : 200_003, i % worldSize),
          ...ring.map(rank => rank.sendReceive(new Float32Array(200_003))),
          ...ring.map(rank => rank.allGather(new Float32Array(rank.rank), { variableLength: true })),
        ]).flat(),
      );
    });
  });
});

describe.each([2, 3, 4])('in a ring of %i that has a tree', worldSize => {
  const large = (rank: Communicator) => rank.allReduce(new Float32Array(1_000_000));
  const small = (rank: Communicator) => rank.allReduce(new Float32Array(10));
  const gather = (rank: Communicator) => rank.allGather(new Float32Array(10));
  const send = (rank: Communicator) => rank.sendReceive(new Float32Array(10));
  const barrier = (rank: Communicator) => rank.barrier();

  test.each([
    ['another by the tree', barrier, small],
    ['one by the ring', barrier, large],
    ['one by the tree', large, small],
    ['a barrier', gather, barrier],
    ['a gather', barrier, gather],
    ['one that sends to the right only', small, send],
  ])('where one rank calls %s, all are told', async (_name, usual, other) => {
    for (let odd = 0; odd < worldSize; odd++) {
      const ring = await connectRing(worldSize, { algorithm: 'tree' });
      const failures = await Promise.all(
        ring.map(each => failureOf((each.rank === odd ? other : usual)(each) as Promise<unknown>)),
      );
      expect(failures.map(({ code }) => code)).toEqual(failures.map(() => 'ERR_COLLECTIVE_MISMATCH'));
      await closeRing(ring);
    }
  });
});

test('4 MiB at most go by the tree, also where its last ranks send all of that before the next has come', async () => {
  const ring = await connectRing(9, { algorithm: 'tree' });
  const last = ring[4]!;
  const sentForEach = async (length: number, lateMs: number) => {
    const before = last.traffic.bytesSent;
    const arrays = ring.map(({ rank }) => new Float32Array(length).fill(rank));
    const call = async (each: Communicator) => {
      if (each.rank === 3) await new Promise(resolve => setTimeout(resolve, lateMs));
      await each.allReduce(arrays[each.rank]!);
    };
    await Promise.all(ring.map(call));
    for (const array of arrays) expect([array[0], array.at(-1)]).toEqual([36, 36]);
    return (last.traffic.bytesSent - before) / (4 * length);
  };
  expect(await sentForEach(2 ** 20, 300)).toBeCloseTo(1, 1);
  expect(await sentForEach(2 ** 20 + 1, 0)).toBeCloseTo((2 * 8) / 9, 1);
  await closeRing(ring);
});

test.each(['ipc', 'tcp'])('all-reduces without koffi, over %s', async transport => {
  const source = `
    const ring = await Communicator.connect();
    for (let round = 0; round < 20; round++) {
      await ring.barrier();
      const sum = await ring.allReduce(new Float32Array(500_000).fill(ring.rank + round));
      sum.forEach(value => { if (value !== 6 + 4 * round) throw new Error(round + ': ' + value); });
    }
    say('right');
    await ring.close();`;
  const env = {
    ...{ GRADRING_ALGORITHM: 'tree', GRADRING_TRANSPORT: transport, GRADRING_ENCRYPTION: 'off' },
    NODE_OPTIONS: `--require ${JSON.stringify(path.join(__dirname, '../support/no-koffi.js'))}`,
  };
  for (const rank of await startRanks(4, source, env)) {
    const { stdout, stderr } = await rank.ended;
    expect({ stdout, stderr }).toEqual({ stdout: 'right\n', stderr: '' });
  }
});

test("rank 0's word counts for all", async () => {
  const masterPort = await freePort();
  const connect = (rank: number) =>
    Communicator.connect({ rank, worldSize: 3, masterPort, algorithm: rank === 0 ? 'tree' : 'ring' });
  const ring = await Promise.all([0, 1, 2].map(connect));
  const inputs = ring.map(({ rank }) => input('float32', PRIME, rank, 3));
  const expected = reducedByTree(inputs, 'sum');
  await Promise.all(ring.map(each => each.allReduce(inputs[each.rank]!)));
  for (const result of inputs) expectSameBits(result, expected, 'the sum');
  await closeRing(ring);
});

test('the tree is for one host with fewer cores than ranks, unless it is asked for', () => {
  const host = Array.from({ length: 4_000 }, () => 'a');
  expect(prefersTree('auto', host)).toBe(true);
  expect(prefersTree('auto', ['a'])).toBe(false);
  expect(prefersTree('auto', [...host, 'b'])).toBe(false);
  expect(prefersTree('ring', host)).toBe(false);
  expect(prefersTree('tree', ['a', 'b'])).toBe(true);
});

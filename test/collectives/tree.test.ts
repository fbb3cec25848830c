import { Communicator, type Reduction } from '../../src/communicator/communicator';
import type { ConnectInput } from '../../src/communicator/connect-options';
import { prefersTree } from '../../src/rendezvous/algorithm';
import { closeRing, connectRing, failureOf, freePort } from '../support/rings';
import { chunkStart, expectSameBits, input, reduced, reducedByTree, type TypeName, TYPES } from './reference';

const PRIME = 1_009;

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
      const most = Math.min(worldSize, 8) * 128 * 1024;
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

    test('runs calls that are made without awaiting in their order', async () => {
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => [
          checkAllReduce('float32', PRIME + i, 'sum'),
          ...ring.map(rank => rank.barrier()),
          checkAllReduce('float64', 100_003, 'mean'),
        ]).flat(),
      );
    });
  });
});

test('ranks that call different things are told so', async () => {
  const ring = await connectRing(4, { algorithm: 'tree' });
  const failures = await Promise.all(
    ring.map(each => failureOf(each.rank === 2 ? each.barrier() : each.allReduce(new Float32Array(10)))),
  );
  for (const { code } of failures) expect(code).toBe('ERR_COLLECTIVE_MISMATCH');
  await closeRing(ring);
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

import type { Communicator } from '../../src/communicator/communicator';
import { type TypeName, TYPES } from '../collectives/reference';
import { coded } from '../support/coded';
import { closeRing, connectRing } from '../support/rings';

let ring: Communicator[];
beforeAll(async () => {
  ring = await connectRing(3);
});
afterAll(() => closeRing(ring));

/** What every rank's call of a collective gives. */
const onAll = <T>(call: (rank: Communicator) => Promise<T>): Promise<T[]> => Promise.all(ring.map(call));

const ramp = (rank: Communicator, elementCount: number) =>
  rank.allocate('float32', elementCount).map((_, i) => rank.rank + i);

test('allocated arrays are zeros of their type and length', () => {
  for (const [type, Type] of Object.entries(TYPES) as [TypeName, (typeof TYPES)[TypeName]][]) {
    const array = ring[0]!.allocate(type, 5);
    expect(array).toBeInstanceOf(Type);
    expect(array).toHaveLength(5);
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).fill(7);
    ring[0]!.free(array);
    const again = ring[0]!.allocate(type, 5);
    expect([...again].map(Number)).toEqual([0, 0, 0, 0, 0]);
    ring[0]!.free(again);
  }
  expect(ring[0]!.allocate('float32', 0)).toHaveLength(0);
});

test('collectives work on them, and on parts of them, in place', async () => {
  const arrays = ring.map(rank => {
    const array = rank.allocate('float32', 10);
    array.set(ramp(rank, 10));
    return array;
  });
  const results = await onAll(rank => rank.allReduce(arrays[rank.rank]!.subarray(2, 6)));
  for (const [rank, array] of arrays.entries()) {
    expect([...array]).toEqual([rank, rank + 1, 9, 12, 15, 18, rank + 6, rank + 7, rank + 8, rank + 9]);
    expect(results[rank]!.buffer).toBe(array.buffer);
    expect(results[rank]!.byteOffset).toBe(array.byteOffset + 8);
  }
});

test('they stay good as the memory grows', async () => {
  const arrays = ring.map(rank => rank.allocate('float32', 6).fill(rank.rank + 1));
  const before = arrays[0]!.buffer.byteLength;
  const more = ring.map(rank => rank.allocate('uint8', 50_000_000));
  expect(more[0]!.buffer.byteLength).toBeGreaterThan(before);
  await onAll(rank => rank.allReduce(arrays[rank.rank]!));
  for (const array of arrays) expect([...array]).toEqual([6, 6, 6, 6, 6, 6]);
  ring.forEach(rank => rank.free(more[rank.rank]!));
});

test('what reduceScatter gives is a part of the allocated array', async () => {
  const arrays = ring.map(rank => rank.allocate('int32', 6).fill(rank.rank));
  const chunks = await onAll(rank => rank.reduceScatter(arrays[rank.rank]!));
  for (const [rank, chunk] of chunks.entries()) {
    expect([...chunk]).toEqual([3, 3]);
    expect(chunk.byteOffset).toBe(arrays[rank]!.byteOffset + rank * 8);
  }
});

test('allGather and broadcast take them, asleep too', async () => {
  const arrays = ring.map(rank => rank.allocate('float64', 2).fill(rank.rank));
  const gathered = await onAll(rank => rank.allGather(arrays[rank.rank]!));
  expect(gathered[2]!.map(array => [...array])).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
  ]);
  await onAll(rank => rank.broadcast(arrays[rank.rank]!, { root: 1 }));
  expect(arrays.map(array => [...array])).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
});

test('what is freed serves again, and can be freed once only', () => {
  const [rank] = ring as [Communicator];
  const array = rank.allocate('float32', 1_000_000);
  const { byteOffset } = array;
  rank.free(array);
  expect(() => rank.free(array)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  expect(rank.allocate('float32', 1_000_000).byteOffset).toBe(byteOffset);
  expect(() => rank.free(new Float32Array(4))).toThrow(/ring\.free takes an array from ring\.allocate/);
});

test.each([-1, 1.5, NaN])('an element count of %p is refused', elementCount => {
  expect(() => ring[0]!.allocate('float32', elementCount)).toThrow(/elementCount/);
});

test.each(['float8', 'Float32Array', 'toString', '', undefined, null, 32])('the type %p is refused', type => {
  expect(() => ring[0]!.allocate(type as 'float32', 4)).toThrow(coded(/must be one of float32, .*, uint8\.$/));
});

test('more than there is room for is a coded error', () => {
  expect(() => ring[0]!.allocate('float64', 2 ** 30)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_MEMORY' }));
});

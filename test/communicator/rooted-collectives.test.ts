import { Communicator, type NumericArray } from '../../src/communicator/communicator';
import { decodeObject, encodeObject } from '../../src/communicator/object-code';
import { casesOf, quickTest } from '../support/cases';
import { random } from '../support/random';
import { closeRing, connectRing, failureOf, freePort } from '../support/rings';

const TYPES = [Float32Array, Float64Array, Int32Array, Uint8Array, Uint16Array, BigInt64Array, BigUint64Array] as const;

describe.each(casesOf([2], [1, 4]))('a ring of %i', worldSize => {
  let ring: Communicator[];
  beforeAll(async () => {
    ring = await connectRing(worldSize);
  });
  afterAll(() => closeRing(ring));

  const all = <T>(call: (communicator: Communicator, rank: number) => Promise<T> | T) =>
    Promise.all(ring.map((communicator, rank) => call(communicator, rank)));
  const ranks = [...Array(worldSize).keys()];

  test.each(TYPES)('reduces, gathers, scatters and exchanges %p, with each root', async Type => {
    const of = (values: number[]): NumericArray =>
      Type === BigInt64Array || Type === BigUint64Array
        ? Type.from(values.map(BigInt))
        : (Type as typeof Uint8Array).from(values);
    const as = Type === Uint16Array ? { as: 'float16' as const } : {};
    const own = (rank: number) => Array.from({ length: 7 }, (_, i) => rank + i);
    for (const root of ranks) {
      const only = <T>(value: T) => ranks.map(rank => (rank === root ? value : undefined));

      const given = ranks.map(rank => of(own(rank)));
      const reduced = await all((communicator, rank) => communicator.reduce(given[rank]!, { root, op: 'max', ...as }));
      expect(reduced).toEqual(only(of(own(worldSize - 1))));
      expect(given).toEqual(ranks.map(rank => of(own(rank === root ? worldSize - 1 : rank))));
      expect(reduced[root]).toBe(given[root]);

      expect(await all((communicator, rank) => communicator.gather(of(own(rank)), { root }))).toEqual(
        only(ranks.map(rank => of(own(rank)))),
      );
      const lengths = ranks.map(rank => of(own(rank).slice(0, rank)));
      const options = { root, variableLength: true };
      expect(await all((communicator, rank) => communicator.gather(lengths[rank]!, options))).toEqual(only(lengths));

      const whole = of(Array.from({ length: 3 * worldSize }, (_, i) => i));
      const scattered = await all((communicator, rank) =>
        communicator.scatter(of([9, 9, 9]), { root, ...(rank === root && { from: whole }) }),
      );
      expect(scattered).toEqual(ranks.map(rank => of([3 * rank, 3 * rank + 1, 3 * rank + 2])));
    }
    const parts = (rank: number) => of(ranks.flatMap(to => [10 * rank + to, 100 + 10 * rank + to]));
    expect(await all((communicator, rank) => communicator.allToAll(parts(rank)))).toEqual(
      ranks.map(rank => of(ranks.flatMap(from => [10 * from + rank, 100 + 10 * from + rank]))),
    );
  });

  test('a value of the root that cannot be sent is told on all ranks, and the ring goes on', async () => {
    const failures = await all((communicator, rank) =>
      failureOf(communicator.broadcastObject(rank === 0 ? { a: [NaN] } : undefined)),
    );
    for (const { code } of failures) expect(code).toBe('ERR_INVALID_ARGUMENT');
    expect(failures[0]!.message).toMatch(/broadcastObject cannot send value\.a\[0\]: it is NaN/);
    for (const { message } of failures.slice(1)) expect(message).toMatch(/^Rank 0, the root of ring\.broadcastObject/);
    await all(each => each.barrier());
  });

  test.each([2 ** 60, 0.5, NaN, -Infinity])('a root that announces a value of %p bytes is named', async announced => {
    if (worldSize === 1) return;
    const [root, other] = ring as [Communicator, Communicator];
    const heard = failureOf(other.broadcastObject(undefined));
    // The first part of the call, as the root would make it.
    await Promise.all([root, ...ring.slice(2)].map(each => each.broadcast(Float64Array.of(announced))));
    expect(await heard).toMatchObject({ code: 'ERR_PROTOCOL', rank: 0 });
    await all(each => each.barrier());
  });

  test('wrong arguments are told before anything is sent', async () => {
    const communicator = ring[0]!;
    const root = worldSize;
    const failures = await Promise.all(
      [
        () => communicator.reduce(Float32Array.of(1), { root }),
        () => communicator.reduce([1] as unknown as Float32Array),
        () => communicator.reduce(Float32Array.of(1), { op: 'median' as 'sum' }),
        () => communicator.gather(Float32Array.of(1), { root: -1 }),
        () => communicator.scatter(Float32Array.of(1)),
        () => communicator.scatter(Float32Array.of(1), { from: new Float64Array(worldSize) as never }),
        () => communicator.scatter(Float32Array.of(1), { from: new Float32Array(worldSize + 1) }),
        () => communicator.scatter([1] as unknown as Float32Array),
        () => communicator.allToAll('x' as unknown as Float32Array),
        () => communicator.allGatherObject(new Map()),
        () => communicator.gatherObject({ a: new DataView(new ArrayBuffer(1)) }),
        () => communicator.gatherObject({}, { root }),
        () => communicator.reduce(Float32Array.of(1), null as never),
        () => communicator.gather(Float32Array.of(1), null as never),
        () => communicator.gatherObject({}, null as never),
        () => communicator.scatter(undefined as never),
        () => communicator.allToAll(undefined as never),
      ].map(call => failureOf(call())),
    );
    for (const { code } of failures) expect(code).toBe('ERR_INVALID_ARGUMENT');
    expect(failures[10]!.message).toMatch(/gatherObject cannot send value\.a: it is a DataView/);
    await all(each => each.barrier());
  });

  test('a misspelt option is told with the options of the call that the user made', async () => {
    const communicator = ring[0]!;
    const misspelt = { rot: 1 } as object;
    const failures = await Promise.all(
      [
        communicator.reduce(Float32Array.of(1), misspelt),
        communicator.gather(Float32Array.of(1), misspelt),
        communicator.gatherObject({}, misspelt),
      ].map(call => failureOf(call)),
    );
    expect(failures.map(({ message }) => message)).toEqual([
      "ring.reduce has no option 'rot'. Did you mean root? Its options are root, op, as, signal.",
      "ring.gather has no option 'rot'. Did you mean root? Its options are root, variableLength, signal.",
      "ring.gatherObject has no option 'rot'. Did you mean root? Its options are root, signal.",
    ]);
  });

  test('the Sync forms give the same', async () => {
    if (worldSize > 1) return; // they would wait for ranks of this thread
    const communicator = ring[0]!;
    expect(communicator.reduceSync(Float32Array.of(2))).toEqual(Float32Array.of(2));
    expect(communicator.gatherSync(Float32Array.of(2))).toEqual([Float32Array.of(2)]);
    expect(communicator.scatterSync(new Float32Array(1), { from: Float32Array.of(2) })).toEqual(Float32Array.of(2));
    expect(communicator.allToAllSync(Float32Array.of(2))).toEqual(Float32Array.of(2));
  });
});

quickTest('await using closes it at the end of the block, on every rank, and after an error, too', async () => {
  const masterPort = await freePort();
  const worldSize = 3;
  const used: Communicator[] = [];
  const useBlock = async (rank: number) => {
    await using communicator = await Communicator.connect({ rank, worldSize, masterPort });
    used[rank] = communicator;
    await using group = await communicator.group(rank % 2);
    expect(await group!.allReduce(Int32Array.of(1))).toEqual(Int32Array.of(rank % 2 === 0 ? 2 : 1));
    if (rank === 1) throw new Error('on purpose');
    return group;
  };
  const ended = await Promise.all([0, 1, 2].map(rank => useBlock(rank).catch((error: Error) => error.message)));
  expect(ended[1]).toBe('on purpose');
  for (const closed of [...used, ended[0] as Communicator, ended[2] as Communicator]) {
    expect(await failureOf(closed.barrier())).toMatchObject({ code: 'ERR_CLOSED' });
  }
});

quickTest('a value above 4 GiB is refused before it is encoded', () => {
  const value = new Array<Uint8Array>(65).fill(new Uint8Array(2 ** 26));
  expect(() => encodeObject(value, 'ring.broadcastObject')).toThrow(/value has 43620\d+ bytes; it may have 4294967296/);
});

quickTest('bytes that are no object are refused, and none of them changes a prototype', () => {
  const value = { a: Float32Array.of(1, 2), b: [Uint8Array.of(7), { c: 'text' }] };
  const bytes = encodeObject(value, 'test');
  expect(decodeObject(bytes, 1)).toEqual(value);
  const next = random(3);
  for (let round = 0; round < 3000; round++) {
    const damaged = bytes.slice(0, next() < 0.3 ? Math.floor(next() * bytes.length) : bytes.length);
    for (let i = 0; i < 3 && damaged.length > 0; i++) damaged[Math.floor(next() * damaged.length)] = 256 * next();
    try {
      decodeObject(damaged, 1);
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_PROTOCOL' });
    }
  }
  const json = JSON.stringify({ value: {}, arrays: [{ path: ['__proto__', 'polluted'], type: 'Uint8Array', length: 0 }] });
  const hostile = new Uint8Array(8 + Math.ceil(json.length / 8) * 8);
  new DataView(hostile.buffer).setUint32(0, json.length, true);
  hostile.set(new TextEncoder().encode(json), 8);
  expect(() => decodeObject(hostile, 1)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  expect('polluted' in {}).toBe(false);
}); // prettier-ignore

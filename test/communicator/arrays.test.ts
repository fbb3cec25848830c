import { runInNewContext } from 'node:vm';
import type { Communicator, NumericArray } from '../../src/communicator/communicator';
import type { GradringError } from '../../src/errors';
import { closeRing, connectRing, failureOf } from '../support/rings';

/** Which arrays collectives take, and what comes of those that were given away. */

let ring: Communicator[];
beforeAll(async () => {
  ring = await connectRing(2);
});
afterAll(() => closeRing(ring));

type Call = (rank: Communicator, array: NumericArray) => unknown;

/** The array is that of the values. */
const sparse = (values: NumericArray) => {
  const indices = Uint32Array.from({ length: values.length }, (_, i) => i);
  return { indices, values: values as Float32Array, elementCount: 8 };
};

const COLLECTIVES: [name: string, call: Call, callSync: Call][] = [
  ['allReduce', (rank, array) => rank.allReduce(array), (rank, array) => rank.allReduceSync(array)],
  ['allGather', (rank, array) => rank.allGather(array), (rank, array) => rank.allGatherSync(array)],
  ['reduceScatter', (rank, array) => rank.reduceScatter(array), (rank, array) => rank.reduceScatterSync(array)],
  ['broadcast', (rank, array) => rank.broadcast(array), (rank, array) => rank.broadcastSync(array)],
  ['sendReceive', (rank, array) => rank.sendReceive(array), (rank, array) => rank.sendReceiveSync(array)],
  ['sparseAllReduce', (rank, array) => rank.sparseAllReduce(sparse(array)), (rank, array) => rank.sparseAllReduceSync(sparse(array))],
]; // prettier-ignore

/** What both forms of a collective say to an array, before anything is sent. */
async function refusals(call: Call, callSync: Call, array: NumericArray): Promise<GradringError[]> {
  const [rank] = ring as [Communicator];
  const thrown: GradringError[] = [];
  try {
    callSync(rank, array);
  } catch (error) {
    thrown.push(error as GradringError);
  }
  return [await failureOf(call(rank, array) as Promise<unknown>), ...thrown];
}

const expectSound = async () => {
  const sums = await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(1))));
  expect(sums.map(([sum]) => sum)).toEqual([2, 2]);
};

function detached(array = new Float32Array(8)): Float32Array {
  structuredClone(array, { transfer: [array.buffer] });
  return array;
}

describe.each(COLLECTIVES)('%s', (name, call, callSync) => {
  test('refuses a detached array', async () => {
    const errors = await refusals(call, callSync, detached());
    expect(errors).toHaveLength(2);
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
      expect(error.message).toMatch(`ring.${name} got a detached array: its memory was given away`);
    }
    await expectSound();
  });

  test('refuses an array that was given back, and parts of it', async () => {
    const [rank] = ring as [Communicator];
    const array = rank.allocate('float32', 8);
    const part = array.subarray(2, 6);
    rank.free(array);
    for (const gone of [array, part]) {
      const errors = await refusals(call, callSync, gone);
      expect(errors).toHaveLength(2);
      for (const error of errors) {
        expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
        expect(error.message).toMatch(`ring.${name} got an array that was given back by ring.free, or a part of one.`);
      }
    }
    await expectSound();
  });

  test('takes an array of another realm, as of node:vm or a Jest test', async () => {
    const other = () => runInNewContext('Float32Array.of(1, 2)') as Float32Array;
    expect(other()).not.toBeInstanceOf(Float32Array);
    const numbers = async (make: () => Float32Array) => {
      const results = (await Promise.all(ring.map(rank => call(rank, make())))) as (Float32Array | Float32Array[])[];
      return results.map(result => [result].flat().map(array => [...array]));
    };
    expect(await numbers(other)).toEqual(await numbers(() => Float32Array.of(1, 2)));
  });
});

test('values that are no such array are told', async () => {
  const [rank] = ring as [Communicator];
  const values: [unknown, RegExp][] = [
    [[1, 2, 3, 4, 5], /not \[ 1, 2, 3, \.\.\. 2 more items \]\.$/],
    [new Int16Array(2), /not Int16Array\(2\) \[ 0, 0 \]\.$/],
    [undefined, /not undefined\.$/],
    [{ [Symbol.toStringTag]: 'Float32Array', length: 2 }, /^ring\.allReduce takes a Float32Array, Float64Array, .* or Uint8Array, not /],
  ]; // prettier-ignore
  for (const [value, words] of values) {
    const error = await failureOf(rank.allReduce(value as NumericArray));
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(words) as string });
  }
});

test('memory that was given back and belongs to another array by now is not written to', async () => {
  const [rank] = ring as [Communicator];
  const old = rank.allocate('float32', 1_000);
  rank.free(old);
  const now = rank.allocate('float32', 1_000).fill(7);
  expect(now.byteOffset).toBe(old.byteOffset);
  expect(await failureOf(rank.allReduce(old))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  expect(now.every(value => value === 7)).toBe(true);
  const beyond = new Float32Array(now.buffer, now.byteOffset, 1_000 + 16);
  expect(await failureOf(rank.allReduce(beyond))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  rank.free(now);
});

test('an array that a call uses cannot be given back', async () => {
  const arrays = ring.map(rank => rank.allocate('float32', 4).fill(rank.rank + 1));
  const first = ring[0]!.allReduce(arrays[0]!.subarray(0, 2));
  const told = {
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringMatching(/still uses\. Await the call first/) as string,
  };
  expect(() => ring[0]!.free(arrays[0]!)).toThrow(expect.objectContaining(told));
  await ring[1]!.allReduce(arrays[1]!.subarray(0, 2));
  await first;
  expect([...arrays[0]!]).toEqual([3, 3, 1, 1]);
  ring.forEach((rank, i) => rank.free(arrays[i]!));
});

test('an array that is given away while a call uses it is told, and the ring goes on', async () => {
  const array = new Float32Array(8);
  const first = ring[0]!.allReduce(array);
  detached(array);
  await ring[1]!.allReduce(new Float32Array(8));
  const error = await failureOf(first);
  expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  expect(error.message).toBe('The array was detached while ring.allReduce used it.');
  await expectSound();
});

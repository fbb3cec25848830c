import * as tf from '@tensorflow/tfjs';
import type { Communicator } from '../../src/communicator/communicator';
import { noCompression } from '../../src/index';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';
import { Ring } from '../../src/tensorflow/ring';
import { type Training, trainedOf } from '../../src/tensorflow/trained';
import { captureWelcome, passWelcome } from '../../src/tensorflow/welcome';

let ring: Ring;
let trained: Training;
/** The header of a rank that trains the same. */
let header: { tensors: { name: string; type: string; shape: number[]; byteLength: number }[] } & Record<
  string,
  unknown
>;
beforeAll(async () => {
  await tf.setBackend('cpu');
  quietCpuBackend();
  ring = await Ring.connect({ rank: 0, worldSize: 1 });
  const variables = [tf.variable(tf.ones([3]), true, 'w'), tf.variable(tf.ones([2, 2]), true, 'v')];
  const optimizer = ring.wrap(tf.train.adam(0.1), { compression: noCompression() });
  optimizer.minimize(() => variables[0]!.sum().add(variables[1]!.sum()) as tf.Scalar, false, variables);
  trained = trainedOf({ variables, optimizer }, 'ring.join');
  const welcome = await captureWelcome(trained, { epoch: 1, batch: 0 }, { mine: true });
  header = JSON.parse(JSON.stringify(welcome.header)) as typeof header;
});
afterAll(() => ring.close());

/** What a newcomer comes to that is given that header by rank 1, and how many bytes it made room for. */
function receive(bytes: Uint8Array): { outcome: unknown; room: number } {
  let room = 0;
  const communicator = {
    allGatherSync: (own: Uint8Array) => [own, bytes],
    broadcastSync: (array: Uint8Array) => ((room += array.byteLength), array),
  } as unknown as Communicator;
  try {
    return { outcome: passWelcome(communicator, 1, undefined, trained).arrays.length, room };
  } catch (error) {
    return { outcome: error, room };
  }
}

const encoded = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

test('a rank that joins gets all that the others have in common', () => {
  const bytes = header.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(receive(encoded(header))).toEqual({ outcome: header.tensors.length, room: bytes });
  expect(bytes).toBeGreaterThan(3 * 7 * 4); // weights, and two moments of Adam's
});

describe('what cannot be its state is refused before there is room for it, and the rank is named', () => {
  const [TERABYTE, LARGE] = [2 ** 40, 2 ** 28];
  const tensor = (name: string, count: number, byteLength = 4 * count) => ({
    ...{ name, type: 'F32', shape: [count], byteLength },
  });
  const withTensors = (change: (tensors: typeof header.tensors) => object[]) => ({
    ...header,
    tensors: change(structuredClone(header.tensors)),
  });

  test.each<[string, () => unknown]>([
    ['nothing', () => null],
    ['something else', () => [header]],
    ['a position that is none', () => ({ ...header, position: { epoch: -1, batch: 0 } })],
    ['counters that are none', () => ({ ...header, counters: { steps: '1' } })],
    ['tensors without end', () => withTensors(all => all.map(each => ({ ...each, byteLength: TERABYTE })))],
    ['a large tensor more', () => withTensors(all => [...all, tensor('shared/w', LARGE)])],
    ['many tensors more', () => withTensors(all => [...all, ...Array.from({ length: 500 }, (_, i) => tensor(`inner/${i}/x`, 1000))])],
    ['a shape that is not its size', () => withTensors(all => [...all, tensor('shared/w', 3, 16)])],
    ['a shape of 10^308', () => withTensors(all => [...all, { ...tensor('shared/w', 3), shape: [1e300, 1e8] }])],
    ['a type that is none', () => withTensors(all => [...all, { ...tensor('shared/w', 3), type: 'F64' }])],
    ['a name twice', () => withTensors(all => [...all, all[0]!])],
    ['no weights', () => withTensors(all => all.slice(1))],
    ['weights of another size', () => withTensors(all => all.map(each => (each.name === 'weight/w' ? tensor(each.name, 2) : each)))],
    ['a momentum of another size', () => withTensors(all => [...all.filter(({ name }) => name !== 'sharedMomentum/w'), tensor('sharedMomentum/w', 2)])],
    ['a variable that is trained, but unknown', () => ({ ...header, trained: [{ name: 'x', shape: [3] }] })],
    ['a variable of another size', () => ({ ...header, trained: [{ name: 'w', shape: [2 ** 30] }] })],
  ])('%s', (_, lie) => {
    const { outcome, room } = receive(encoded(lie()));
    expect(outcome).toMatchObject({ code: 'ERR_PROTOCOL', rank: 1 });
    expect(room).toBe(0);
  }); // prettier-ignore

  test('bytes that are no JSON', () => {
    for (const text of ['', '{', '\x1b[2J']) {
      expect(receive(new TextEncoder().encode(text)).outcome).toMatchObject({ code: 'ERR_PROTOCOL', rank: 1 });
    }
  });
});

test('another model is told as such, with names as they can be shown', () => {
  const { outcome, room } = receive(encoded({ ...header, variables: ["'w\x1b[2J\n' float32[3]"] }));
  expect(outcome).toMatchObject({
    code: 'ERR_MODEL_MISMATCH',
    message: expect.stringContaining("and 'w\\u{1b}[2J\\u{a}' float32[3] there.") as string,
  });
  expect(room).toBe(0);
});

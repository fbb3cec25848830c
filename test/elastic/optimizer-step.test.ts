import * as tf from '@tensorflow/tfjs';
import { Communicator } from '../../src/communicator/communicator';
import { Units } from '../../src/communicator/units';
import { noCompression } from '../../src/compression/dgc-options';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';
import type { ExchangedVariables } from '../../src/tensorflow/exchanged-variables';
import { RingOptimizer } from '../../src/tensorflow/ring-optimizer';
import { TfjsOptimizer } from '../../src/tensorflow/tfjs-optimizer';
import { waitForPromise } from '../../src/work';

let ring: Communicator;
beforeAll(async () => {
  await tf.setBackend('cpu');
  quietCpuBackend();
  ring = await Communicator.connect({ rank: 0, worldSize: 1 });
});
afterAll(() => ring.close());

/** A ring of one, as if its run were elastic. */
function elasticRing(): Communicator {
  const units = new Units({
    rejoin: () => false,
    allGather: own => [own],
    awaitOthers: async () => undefined,
    evenIfLeaving: run => run(),
  });
  return Object.create(ring, { isElastic: { value: true }, units: { value: units } }) as Communicator;
}

const WRAP_OPTIONS = [{}, { accumulate: 3 }, { localSteps: 3 }];

test.each(WRAP_OPTIONS)('a step within a unit is refused, and has changed nothing: %j', async options => {
  /** The weights after four steps, and after the ranks have exchanged the rest of them. */
  const train = async (name: string, triesWithin: boolean) => {
    const communicator = elasticRing();
    const w = tf.variable(tf.ones([2]), true, `${name} ${JSON.stringify(options)}`);
    const optimizer = new RingOptimizer(communicator, tf.train.sgd(1), { compression: noCompression(), ...options });
    const step = () => optimizer.minimizeAsync(() => w.square().sum());
    const tryWithin = async (call: () => Promise<unknown>) => {
      const unit = { name: 'a unit', run: () => waitForPromise(call()) };
      const refusal = 'An optimizer step cannot be part of allOrNone';
      if (triesWithin) await expect(communicator.units.run(unit)).rejects.toThrow(refusal);
    };
    await tryWithin(step); // as the first one
    for (let taken = 0; taken < 4; taken++) {
      await step();
      await tryWithin(step);
    }
    if (Object.keys(options).length > 0) await tryWithin(() => optimizer.synchronize());
    await optimizer.synchronize();
    expect(optimizer.statistics.steps).toBe(4);
    const weights = w.dataSync();
    optimizer.dispose();
    return weights;
  };
  expect(await train('disturbed', true)).toEqual(await train('undisturbed', false));
});

test('an update that fails in a ring of another size leaves the learning rate as it was', () => {
  const inner = tf.train.adam(0.125);
  inner.applyGradients = () => {
    throw new Error('It fails.');
  };
  const optimizer = new TfjsOptimizer(inner);
  expect(() => optimizer.apply({ variables: [] } as unknown as ExchangedVariables, 3 / 4)).toThrow('It fails.');
  expect(optimizer.learningRate).toBe(0.125);
});

import { Communicator } from '../../src/communicator/communicator';
import { noCompression } from '../../src/compression/dgc-options';
import { RingGradients } from '../../src/core/ring-gradients';
import type { ExchangeResult } from '../../src/exchange/messages';

const MEASURED = { byteNs: 8, hopNs: 262_144 };

let ring: Communicator;
beforeAll(async () => {
  ring = await Communicator.connect({ rank: 0, worldSize: 1 });
});
afterAll(() => ring.close());

/** The gradients of a training, whose steps measure what the links cost unless they are told. */
function training(isElastic: boolean) {
  /** What the steps were told. */
  const told: unknown[] = [];
  let generation = 0;
  const communicator = Object.create(ring, {
    isElastic: { get: () => isElastic },
    generation: { get: () => generation },
  }) as Communicator;
  communicator.openExchange = input => {
    const handle = ring.openExchange(input);
    const start = handle.start.bind(handle);
    const measured = (result: ExchangeResult) => ({ ...result, links: MEASURED });
    handle.start = step => {
      told.push(step.links);
      const ticket = start(step);
      return { promise: ticket.promise.then(measured), sleep: () => measured(ticket.sleep()) };
    };
    return handle;
  };
  const gradients = new RingGradients(communicator, { w: [4] }, { compression: noCompression() });
  return {
    told,
    gradients,
    step: () => gradients.step({ w: new Float32Array(4) }),
    nextRing: () => void generation++,
  };
}

test('each ring of an elastic run measures its own links', async () => {
  const { told, step, nextRing, gradients } = training(true);
  await step();
  await step();
  nextRing();
  await step();
  await step();
  expect(told).toEqual([undefined, MEASURED, undefined, MEASURED]);
  gradients.dispose();
});

test.each([
  ['a static run goes on with the saved links', false, MEASURED],
  ['an elastic run measures its links', true, undefined],
])('after a resume %s', async (_, isElastic, first) => {
  const before = training(isElastic);
  await before.step();
  const after = training(isElastic);
  await before.gradients.steps.withState(state => after.gradients.steps.restoreState(state));
  await after.step();
  expect(after.told).toEqual([first]);
  before.gradients.dispose();
  after.gradients.dispose();
});

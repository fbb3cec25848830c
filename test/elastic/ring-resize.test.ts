import type { Communicator } from '../../src/communicator/communicator';
import { RingResize } from '../../src/core/ring-agreement';

const ring = (worldSize: number, isElastic = true) =>
  ({ worldSize, isElastic, launched: { rank: 0, worldSize: 4 } }) as unknown as Communicator;

test('the rate follows the ring that took the step, the momentum the change of the rate', () => {
  const resize = new RingResize(ring(2), 'linear');
  expect([resize.rateFactor, resize.momentumScale]).toEqual([1, 1]); // no step yet
  resize.lastWorldSize = 3;
  expect([resize.rateFactor, resize.momentumScale]).toEqual([3 / 4, 3 / 2]);
  resize.lastWorldSize = 2;
  expect([resize.rateFactor, resize.momentumScale]).toEqual([2 / 4, 1]);
});

test.each([
  ['the rule is constant', ring(2), 'constant'],
  ['the run is not elastic', ring(2, false), 'linear'],
] as const)('nothing changes where %s', (_, communicator, rule) => {
  const resize = new RingResize(communicator, rule);
  resize.lastWorldSize = 3;
  expect([resize.rateFactor, resize.momentumScale, resize.isLinear]).toEqual([1, 1, false]);
});

test('other rules are refused', () => {
  expect(() => new RingResize(ring(4), 'square' as 'linear')).toThrow("learningRateRule is 'square'");
});

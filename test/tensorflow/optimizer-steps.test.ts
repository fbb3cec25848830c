import { type OptimizerSteps, STEPS, stepsOf } from '../../src/tensorflow/optimizer-steps';
import { RingOptimizer } from '../../src/tensorflow/ring-optimizer';

test('an optimizer is told by its steps, not by its methods', () => {
  const steps = {} as OptimizerSteps;
  const wrapped = Object.create(RingOptimizer.prototype, { [STEPS]: { value: steps } }) as RingOptimizer;
  expect(stepsOf(wrapped)).toBe(steps);
  expect(RingOptimizer.is(wrapped)).toBe(true);
  for (const other of [Object.create(RingOptimizer.prototype), {}, null, undefined, 'sgd']) {
    expect(stepsOf(other)).toBeUndefined();
    expect(RingOptimizer.is(other)).toBe(false);
  }
});

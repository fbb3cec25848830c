import { RingOptimizer } from '../../src/tensorflow/ring-optimizer';
import { isTrained, TRAINED, type TrainedOptimizer } from '../../src/tensorflow/trained-optimizer';

/** The compiler checks it here: the class does not name the interface, because users see only a part of it. */
const asTrained = (optimizer: RingOptimizer): TrainedOptimizer => optimizer;

test('an optimizer is told by its mark, not by its methods', () => {
  const marked = Object.create(RingOptimizer.prototype, { [TRAINED]: { value: true } }) as RingOptimizer;
  expect(isTrained(asTrained(marked))).toBe(true);
  expect(RingOptimizer.is(marked)).toBe(true);
  for (const other of [Object.create(RingOptimizer.prototype), {}, null, undefined, 'sgd'])
    expect(isTrained(other)).toBe(false);
});

import { countWrongElements, fillExact, inputOf, reductionOf } from '../../../src/bench/collectives/exact-values';
import type { Reduction } from '../../../src/communicator/communicator';
import { TYPES, type TypeName, reduced } from '../../collectives/reference';

const LENGTH = 5_000;

const inputs = (type: TypeName, ranks: number, iteration: number) =>
  Array.from({ length: ranks }, (_, rank) => {
    const array = new TYPES[type](LENGTH);
    fillExact(array, rank, iteration);
    return array;
  });

const combinations = (Object.keys(TYPES) as TypeName[]).flatMap(type =>
  (['sum', 'mean', 'min', 'max'] as const)
    .filter(op => op !== 'mean' || type.startsWith('float'))
    .map((op): [TypeName, Reduction] => [type, op]),
);

test.each(combinations)('%s, %s: what is expected is what a reduction gives, exactly', (type, op) => {
  for (const ranks of [1, 2, 3, 7]) {
    const result = reduced(inputs(type, ranks, 5), op);
    expect(countWrongElements(result, reductionOf(op, ranks), 5)).toBe(0);
    expect(countWrongElements(result.subarray(777), reductionOf(op, ranks), 5, 777)).toBe(0);
    result[3]! += 1;
    result[4_000]! -= 1;
    expect(countWrongElements(result, reductionOf(op, ranks), 5)).toBe(2);
  }
});

test('values tell rank, element and iteration apart', () => {
  const [first, second] = inputs('uint8', 2, 0);
  expect(countWrongElements(first!, inputOf(0), 0)).toBe(0);
  expect(countWrongElements(second!, inputOf(0), 0)).toBe(LENGTH);
  expect(countWrongElements(first!, inputOf(0), 1)).toBeGreaterThan(LENGTH * 0.9);
  expect(countWrongElements(first!.subarray(1), inputOf(0), 0)).toBeGreaterThan(LENGTH * 0.9);
});

test('sums stay exact in float32 for rings of any size that it says', () => {
  const { factor, offset } = reductionOf('sum', 73_000);
  expect(127 * factor + offset).toBeLessThan(2 ** 24);
});

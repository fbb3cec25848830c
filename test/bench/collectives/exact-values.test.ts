import { countWrongElements, fillExact, inputOf, reductionOf } from '../../../src/bench/collectives/exact-values';
import type { NumericArray, Reduction } from '../../../src/communicator/communicator';
import { TYPES, type TypeName, reduced, reductionsOf } from '../../collectives/reference';

const LENGTH = 5_000;

const inputs = (type: TypeName, op: Reduction, ranks: number, iteration: number) =>
  Array.from({ length: ranks }, (_, rank) => {
    const array = new TYPES[type](LENGTH);
    fillExact(array, rank, iteration, { type, op });
    return array;
  });

const combinations = (Object.keys(TYPES) as TypeName[]).flatMap(type =>
  reductionsOf(type).map((op): [TypeName, Reduction] => [type, op]),
);

test.each(combinations)('%s, %s: what is expected is what a reduction gives, exactly', (type, op) => {
  const kind = { type, op };
  for (const ranks of [1, 2, 3, 7]) {
    const result = reduced<NumericArray>(inputs(type, op, ranks, 5), op, type);
    const expected = reductionOf(kind, ranks);
    expect(countWrongElements(result, expected, 5, kind)).toBe(0);
    expect(countWrongElements(result.subarray(777), expected, 5, kind, 777)).toBe(0);
    for (const i of [3, 4_000]) result[i] = typeof result[i] === 'bigint' ? result[i] + 1n : result[i]! + 1;
    expect(countWrongElements(result, expected, 5, kind)).toBe(2);
    // What lacks a rank is noticed.
    const lacking = reduced<NumericArray>(inputs(type, op, ranks + 1, 5), op, type);
    const isLike = op === 'min' || op === 'max' || ranks === 1;
    if (!isLike) expect(countWrongElements(lacking, expected, 5, kind)).toBeGreaterThan(LENGTH / 5);
  }
});

test('values tell rank, element and iteration apart', () => {
  const kind = { type: 'uint8', op: 'sum' } as const;
  const [first, second] = inputs('uint8', 'sum', 2, 0);
  expect(countWrongElements(first!, inputOf(0, kind), 0, kind)).toBe(0);
  expect(countWrongElements(second!, inputOf(0, kind), 0, kind)).toBe(LENGTH);
  expect(countWrongElements(first!, inputOf(0, kind), 1, kind)).toBeGreaterThan(LENGTH * 0.9);
  expect(countWrongElements(first!.subarray(1), inputOf(0, kind), 0, kind)).toBeGreaterThan(LENGTH * 0.9);
});

test('sums stay exact in float32 for rings of any size that it says', () => {
  const { of } = reductionOf({ type: 'float32', op: 'sum' }, 73_000);
  expect(of(127)).toBeLessThan(2 ** 24);
});

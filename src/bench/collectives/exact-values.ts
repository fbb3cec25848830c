import type { NumericArray, Reduction } from '../../communicator/communicator';

/**
 * An input is the part of an element plus the part of a rank: a whole number less than 228, which every type holds
 * exactly. So do their sums over up to 73,000 ranks. Sums of uint8 wrap around.
 */

/** 0 … 127, different for other elements and other iterations. */
function partOfElement(element: number, iteration: number): number {
  return Math.imul(element + 7919 * iteration, 0x9e3779b1) >>> 25;
}

/** 0 … 100, different for neighbouring ranks. */
export function partOfRank(rank: number): number {
  return (37 * rank + 11) % 101;
}

/** Writes the input of a rank. */
export function fillExact(array: NumericArray, rank: number, iteration: number): void {
  const own = partOfRank(rank);
  for (let i = 0; i < array.length; i++) array[i] = partOfElement(i, iteration) + own;
}

/** The result for the part of an element: (factor · part + offset) · scale, in the type of the array. */
export interface Expected {
  readonly factor: number;
  readonly offset: number;
  /** Applied last, as for a mean. */
  readonly scale: number;
}

/** The input of one rank. */
export function inputOf(rank: number): Expected {
  return { factor: 1, offset: partOfRank(rank), scale: 1 };
}

/** The reduction over all ranks. */
export function reductionOf(op: Reduction, ranks: number): Expected {
  const parts = Array.from({ length: ranks }, (_, rank) => partOfRank(rank));
  if (op === 'min') return { factor: 1, offset: Math.min(...parts), scale: 1 };
  if (op === 'max') return { factor: 1, offset: Math.max(...parts), scale: 1 };
  const offset = parts.reduce((sum, part) => sum + part);
  return { factor: ranks, offset, scale: op === 'mean' ? 1 / ranks : 1 };
}

/**
 * How many elements differ from the expected value.
 *
 * @param first The position of the array's first element in the whole array.
 */
export function countWrongElements(
  array: NumericArray,
  { factor, offset, scale }: Expected,
  iteration: number,
  first = 0,
): number {
  // The product is rounded once, in the type of the array, and so is the factor.
  const scaleOfType = array instanceof Float32Array ? Math.fround(scale) : scale;
  const rounding = array instanceof Float32Array ? Math.fround : (value: number): number => value;
  const wrap = array instanceof Uint8Array ? 0xff : -1;
  const whole = array instanceof Uint8Array || array instanceof Int32Array;
  let wrong = 0;
  for (let i = 0; i < array.length; i++) {
    const reduced = factor * partOfElement(first + i, iteration) + offset;
    const expected = whole ? reduced & wrap : rounding(reduced * scaleOfType);
    if (array[i] !== expected) wrong++;
  }
  return wrong;
}

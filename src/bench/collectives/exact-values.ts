/**
 * An input is the part of an element plus the part of a rank: a whole number less than 228, which every type holds
 * exactly. So do their sums over up to 73,000 ranks. With 16 bits inputs are less than 6, and sums are exact over up to
 * 50 ranks. Sums of integers wrap around. For a product an input is 1 or 2: one of four elements is 2 on a rank.
 */
import { floatsToBits, HALF_TYPES, type HalfType } from '../../collectives/half-floats';
import type { ElementType, NumericArray, Reduction } from '../../communicator/communicator';

/** What arrays of a benchmark hold. A benchmark that does not reduce takes `sum`. */
export interface Kind {
  readonly type: ElementType;
  readonly op: Reduction;
}

/** The type as which a `Uint16Array` is reduced; nothing for other arrays. */
export function asOf({ type }: Kind): { readonly as?: HalfType } {
  return isHalf(type) ? { as: type } : {};
}

function isHalf(type: ElementType): type is HalfType {
  return (HALF_TYPES as readonly ElementType[]).includes(type);
}

/** 0 … 127, or 0 … 3, different for other elements and other iterations. */
function partOfElement(element: number, iteration: number, { type }: Kind): number {
  return Math.imul(element + 7919 * iteration, 0x9e3779b1) >>> (isHalf(type) ? 30 : 25);
}

/** 0 … 100, or 0 … 2, different for neighbouring ranks. */
export function partOfRank(rank: number, { type }: Kind): number {
  return isHalf(type) ? rank % 3 : (37 * rank + 11) % 101;
}

const isFactor = (part: number, rank: number) => part % 4 === rank % 4;

/** The values, before they are rounded, as they follow from the part of an element. */
export interface Expected {
  readonly of: (part: number) => number;
  /** Applied last, as for a mean. */
  readonly scale: number;
}

/** The input of one rank. */
export function inputOf(rank: number, kind: Kind): Expected {
  if (kind.op === 'product') return { of: part => (isFactor(part, rank) ? 2 : 1), scale: 1 };
  const own = partOfRank(rank, kind);
  return { of: part => part + own, scale: 1 };
}

/** The reduction over all ranks. */
export function reductionOf(kind: Kind, ranks: number): Expected {
  const all = Array.from({ length: ranks }, (_, rank) => rank);
  const parts = all.map(rank => partOfRank(rank, kind));
  const sum = parts.reduce((total, part) => total + part);
  switch (kind.op) {
    case 'min':
      return { of: part => part + Math.min(...parts), scale: 1 };
    case 'max':
      return { of: part => part + Math.max(...parts), scale: 1 };
    case 'product':
      return { of: part => 2 ** all.filter(rank => isFactor(part, rank)).length, scale: 1 };
    case 'sum':
      return { of: part => ranks * part + sum, scale: 1 };
    case 'mean':
      return { of: part => ranks * part + sum, scale: 1 / ranks };
  }
}

/** Writes the input of a rank. */
export function fillExact(array: NumericArray, rank: number, iteration: number, kind: Kind): void {
  const { of } = inputOf(rank, kind);
  const values = valuesOf({ of, scale: 1 }, kind);
  const elements = array as { [i: number]: number | bigint }; // the values are of the type of the array
  for (let i = 0; i < array.length; i++) elements[i] = values[partOfElement(i, iteration, kind)]!;
}

/**
 * How many elements differ from the expected value.
 *
 * @param first The position of the array's first element in the whole array.
 */
export function countWrongElements(
  array: NumericArray,
  expected: Expected,
  iteration: number,
  kind: Kind,
  first = 0,
): number {
  const values = valuesOf(expected, kind);
  let wrong = 0;
  for (let i = 0; i < array.length; i++) {
    if (array[i] !== values[partOfElement(first + i, iteration, kind)]) wrong++;
  }
  return wrong;
}

/** The elements for each part, as the type has them. */
function valuesOf({ of, scale }: Expected, { type }: Kind): readonly (number | bigint)[] {
  const parts = Array.from({ length: isHalf(type) ? 4 : 128 }, (_, part) => of(part));
  if (type === 'int64' || type === 'uint64') return parts.map(BigInt);
  if (type === 'int32' || type === 'uint8') return parts.map(value => value & (type === 'uint8' ? 0xff : -1));
  if (type === 'float64') return parts.map(value => value * scale);
  // The product is rounded once, in the type of the array, and so is the factor: to float32 for floats of 16 bits.
  const singles = Float32Array.from(parts, value => value * Math.fround(scale));
  return Array.from(isHalf(type) ? floatsToBits(singles, type) : singles);
}

import { bitsToFloats, floatsToBits } from '../../src/collectives/half-floats';
import type { NumericArray, Reduction, SparseArray } from '../../src/communicator/communicator';
import { random } from '../support/random';

/** What the collectives must give, computed in one place and one loop. */

export const TYPES = {
  ...{ float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array },
  ...{ int32: Int32Array, int64: BigInt64Array, uint64: BigUint64Array, uint8: Uint8Array },
} as const;
export type TypeName = keyof typeof TYPES;
type HalfName = 'float16' | 'bfloat16';

const isHalf = (type: TypeName): type is HalfName => TYPES[type] === Uint16Array;

/** The options of a reduction. */
export const reductionOf = (type: TypeName, op: Reduction) => ({ op, ...(isHalf(type) && { as: type }) });

/** The reductions that a type has. */
export const reductionsOf = (type: TypeName): Reduction[] =>
  type.includes('float') ? ['sum', 'product', 'mean', 'min', 'max'] : ['sum', 'product', 'min', 'max'];

// Looked up once: every look-up of a global is slow in Jest's realm.
const { floor, fround, min, max } = Math;
const isSame = Object.is;

/** Made once for all rings. */
const inputs = new Map<string, NumericArray>();
const sparseInputs = new Map<string, SparseArray>();

/** After so many elements an input repeats itself: a prime number, so that no two chunks or segments are alike. */
const PERIOD = 65_537;

/** A rank's input: another one for each rank and seed, over the whole range of its type. */
export function input(type: TypeName, length: number, rank: number, seed: number): NumericArray {
  const key = [type, length, rank, seed].join();
  if (!inputs.has(key)) inputs.set(key, makeInput(type, length, rank, seed));
  return inputs.get(key)!.slice();
}

function makeInput(type: TypeName, length: number, rank: number, seed: number): NumericArray {
  const next = random(seed * 1_000 + rank * 31 + length);
  const long = () => BigInt(floor(next() * 2 ** 32)) * 2n ** 32n + BigInt(floor(next() * 2 ** 32));
  const value: () => number | bigint = {
    float32: () => (next() - 0.5) * 2 ** floor(next() * 40 - 20),
    float64: () => (next() - 0.5) * 2 ** floor(next() * 80 - 40),
    float16: () => (next() - 0.5) * 2 ** floor(next() * 40 - 24), // some are subnormal, and some sums overflow
    bfloat16: () => (next() - 0.5) * 2 ** floor(next() * 40 - 20),
    int32: () => floor((next() - 0.5) * 2 ** 32), // sums wrap around
    int64: () => BigInt.asIntN(64, long()),
    uint64: long,
    uint8: () => floor(next() * 256),
  }[type];
  const first = Array.from({ length: min(length, PERIOD) }, value);
  const array = new TYPES[type](length);
  set(array, isHalf(type) ? floatsToBits(Float32Array.from(first as number[]), type) : first);
  for (let i = PERIOD; i < length; i += PERIOD) array.copyWithin(i, 0, min(PERIOD, length - i));
  return array;
}

/** The elements are of the type of the array. */
function set(array: NumericArray, elements: ArrayLike<number | bigint>, at = 0): void {
  (array as Uint8Array).set(elements as ArrayLike<number>, at);
}

/** Where a chunk begins, for chunk = N: where the array ends. */
export const chunkStart = (length: number, worldSize: number, chunk: number) => floor((chunk * length) / worldSize);

/** Element by element; chunk c in the order of ranks c + 1, c + 2, …, c, in which the ring adds. */
export function reduced<T extends NumericArray>(inputs: readonly T[], reduction: Reduction, type: TypeName): T {
  const worldSize = inputs.length;
  const result = inputs[0]!.slice() as T;
  for (let chunk = 0; chunk < worldSize; chunk++) {
    const start = chunkStart(result.length, worldSize, chunk);
    const part = (hop: number) =>
      inputs[(chunk + hop) % worldSize]!.slice(start, chunkStart(result.length, worldSize, chunk + 1));
    let sum: NumericArray = part(1);
    for (let hop = 2; hop <= worldSize; hop++) sum = combined(sum, part(hop), reduction, type);
    set(result, reduction === 'mean' ? scaled(sum, worldSize, type) : sum, start);
  }
  return result;
}

/** Storing each partial result rounds it, or wraps it around, as the type does. */
function combined(one: NumericArray, other: NumericArray, reduction: Reduction, type: TypeName): NumericArray {
  const name = reduction === 'mean' ? 'sum' : reduction;
  if (isHalf(type)) {
    const floats = [one, other].map(bits => bitsToFloats(bits as Uint16Array, type));
    return floatsToBits(combined(floats[0]!, floats[1]!, name, 'float32') as Float32Array, type);
  }
  if (one instanceof BigInt64Array || one instanceof BigUint64Array) {
    const wholes = other as typeof one;
    const step = {
      sum: (a: bigint, b: bigint) => a + b,
      product: (a: bigint, b: bigint) => a * b,
      min: (a: bigint, b: bigint) => (a < b ? a : b),
      max: (a: bigint, b: bigint) => (a > b ? a : b),
    }[name];
    for (let i = 0; i < one.length; i++) one[i] = step(one[i]!, wholes[i]!);
    return one;
  }
  const numbers = other as Float64Array;
  const product = one instanceof Int32Array ? Math.imul : (a: number, b: number) => a * b;
  const step = { sum: (a: number, b: number) => a + b, product, min, max }[name];
  for (let i = 0; i < one.length; i++) one[i] = step(one[i]!, numbers[i]!);
  return one;
}

function scaled(array: NumericArray, worldSize: number, type: TypeName): NumericArray {
  if (isHalf(type)) {
    return floatsToBits(scaled(bitsToFloats(array as Uint16Array, type), worldSize, 'float32') as Float32Array, type);
  }
  const factor = type === 'float32' ? fround(1 / worldSize) : 1 / worldSize;
  return (array as Float64Array).map(value => value * factor);
}

/** A rank's sparse input, each entry with the given density. */
export function sparseInput(elementCount: number, density: number, rank: number, seed: number): SparseArray {
  const key = [elementCount, density, rank, seed].join();
  if (!sparseInputs.has(key)) sparseInputs.set(key, makeSparseInput(elementCount, density, rank, seed));
  const { indices, values } = sparseInputs.get(key)!;
  return { indices: indices.slice(), values: values.slice(), elementCount };
}

function makeSparseInput(elementCount: number, density: number, rank: number, seed: number): SparseArray {
  const next = random(seed * 1_000 + rank * 31 + elementCount);
  const indices = new Uint32Array(elementCount).map((_, i) => i).filter(() => next() < density);
  const values = new Float32Array(indices.length).map(() => (next() - 0.5) * 2 ** floor(next() * 40 - 20));
  return { indices, values, elementCount };
}

/** Added in the order of ranks. */
export function sparseSum(inputs: readonly SparseArray[]): Float32Array {
  const sum = new Float32Array(inputs[0]!.elementCount);
  for (const { indices, values } of inputs) indices.forEach((index, i) => (sum[index]! += values[i]!));
  return sum;
}

/** Bits, so that NaN and −0 are told apart and millions of elements are compared quickly. */
export function expectSameBits(actual: NumericArray, expected: NumericArray, what: string): void {
  const bytes = (array: NumericArray) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
  if (actual.constructor === expected.constructor && bytes(actual).equals(bytes(expected))) return;
  if (actual.constructor !== expected.constructor || actual.length !== expected.length) {
    throw new Error(
      `${what}: ${actual.constructor.name}[${actual.length}], not ${expected.constructor.name}[${expected.length}]`,
    );
  }
  const at = [...actual].findIndex((value, i) => !isSame(value, expected[i]));
  throw new Error(`${what}: element ${at} of ${actual.length} is ${actual[at]}, not ${expected[at]}`);
}

import type { NumericArray, Reduction, SparseArray } from '../../src/communicator/communicator';
import { random } from '../support/random';

/** What the collectives must give, computed in one place and one loop. */

export const TYPES = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array } as const;
export type TypeName = keyof typeof TYPES;

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
  const value = {
    float32: () => (next() - 0.5) * 2 ** floor(next() * 40 - 20),
    float64: () => (next() - 0.5) * 2 ** floor(next() * 80 - 40),
    int32: () => floor((next() - 0.5) * 2 ** 32), // sums wrap around
    uint8: () => floor(next() * 256),
  }[type];
  const array = new TYPES[type](length);
  for (let i = 0; i < min(length, PERIOD); i++) array[i] = value();
  for (let i = PERIOD; i < length; i += PERIOD) array.copyWithin(i, 0, min(PERIOD, length - i));
  return array;
}

/** Where a chunk begins, for chunk = N: where the array ends. */
export const chunkStart = (length: number, worldSize: number, chunk: number) => floor((chunk * length) / worldSize);

/** Element by element; chunk c in the order of ranks c + 1, c + 2, …, c, in which the ring adds. */
export function reduced<T extends NumericArray>(inputs: readonly T[], reduction: Reduction): T {
  const worldSize = inputs.length;
  const result = inputs[0]!.slice() as T;
  const step = { sum: (a: number, b: number) => a + b, min, max }[reduction === 'mean' ? 'sum' : reduction];
  for (let chunk = 0; chunk < worldSize; chunk++) {
    const end = chunkStart(result.length, worldSize, chunk + 1);
    for (let i = chunkStart(result.length, worldSize, chunk); i < end; i++) {
      result[i] = inputs[(chunk + 1) % worldSize]![i]!;
      // Storing each partial result rounds it, or wraps it around, as the type does.
      for (let hop = 2; hop <= worldSize; hop++) result[i] = step(result[i]!, inputs[(chunk + hop) % worldSize]![i]!);
    }
  }
  const factor = result instanceof Float32Array ? fround(1 / worldSize) : 1 / worldSize;
  if (reduction === 'mean') for (let i = 0; i < result.length; i++) result[i]! *= factor;
  return result;
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
  const at = actual.findIndex((value, i) => !isSame(value, expected[i]));
  throw new Error(`${what}: element ${at} of ${actual.length} is ${actual[at]}, not ${expected[at]}`);
}

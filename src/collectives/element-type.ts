import { inspect } from 'node:util';
import {
  isBigInt64Array,
  isBigUint64Array,
  isFloat32Array,
  isFloat64Array,
  isInt32Array,
  isUint16Array,
  isUint8Array,
} from 'node:util/types';
import { invalidArgument } from '../errors';
import type { FloatType } from '../kernels/kernels';

/** The types of elements. A `Uint16Array` that is not declared as float16 or bfloat16 can be moved, but not reduced. */
export type ElementType =
  'float32' | 'float64' | 'float16' | 'bfloat16' | 'int32' | 'int64' | 'uint64' | 'uint16' | 'uint8';

/** The arrays that collectives take. A `Uint16Array` holds the bits of float16 or bfloat16. */
export type NumericArray =
  Float32Array | Float64Array | Int32Array | BigInt64Array | BigUint64Array | Uint16Array | Uint8Array;

/** {@link NumericArray} in words. */
export const NUMERIC_ARRAYS =
  'Float32Array, Float64Array, Int32Array, BigInt64Array, BigUint64Array, Uint16Array or Uint8Array';

const CONSTRUCTORS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
} as const;

/** How many bytes an element takes. */
export const ELEMENT_BYTES: Readonly<Record<ElementType, number>> = Object.fromEntries(
  Object.entries(CONSTRUCTORS).map(([type, { BYTES_PER_ELEMENT }]) => [type, BYTES_PER_ELEMENT]),
) as Record<ElementType, number>;

/** @throws GradringError `ERR_INVALID_ARGUMENT` if there is no such type. */
export function requireElementType(type: unknown): asserts type is ElementType {
  if (typeof type === 'string' && Object.hasOwn(CONSTRUCTORS, type)) return;
  const list = Object.keys(CONSTRUCTORS).join(', ');
  throw invalidArgument(`type is ${inspect(type, { depth: 0 })}; it must be one of ${list}.`);
}

/** Whether a mean of such elements is an element, too. */
export function isFloat(type: ElementType): type is FloatType {
  return type.includes('float');
}

/** The array type of an element type: `ArrayOf<'float32'>` is `Float32Array`. */
export type ArrayOf<T extends ElementType> = InstanceType<(typeof CONSTRUCTORS)[T]>;

/** An array of the type over given memory. */
export function arrayOf(
  type: ElementType,
  buffer: ArrayBufferLike,
  offset: number,
  elementCount: number,
): NumericArray {
  return new CONSTRUCTORS[type](buffer as ArrayBuffer, offset, elementCount);
}

/**
 * The element type of an array as its class tells it, or `undefined` for anything that the collectives do not take. The
 * array may come from another realm, such as that of a Jest test or of `node:vm`.
 */
export function elementTypeOf(array: unknown): ElementType | undefined {
  if (isFloat32Array(array)) return 'float32';
  if (isFloat64Array(array)) return 'float64';
  if (isInt32Array(array)) return 'int32';
  if (isBigInt64Array(array)) return 'int64';
  if (isBigUint64Array(array)) return 'uint64';
  if (isUint16Array(array)) return 'uint16';
  return isUint8Array(array) ? 'uint8' : undefined;
}

/** Copies elements between two arrays of one type. */
export function copyElements(into: NumericArray, from: NumericArray, at = 0): void {
  (into as Uint8Array).set(from as Uint8Array, at); // to TypeScript the two might differ
}

/** Whether the memory of an array was given away, as by a transfer to another thread. */
export function isDetached({ buffer, byteLength }: ArrayBufferView): boolean {
  if (byteLength > 0) return false;
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

import { isFloat32Array, isFloat64Array, isInt32Array, isUint8Array } from 'node:util/types';
import type { ElementType } from '../kernels/kernels';

/** The arrays that collectives take. */
export type NumericArray = Float32Array | Float64Array | Int32Array | Uint8Array;

/** How many bytes an element takes. */
export const ELEMENT_BYTES: Readonly<Record<ElementType, number>> = { float32: 4, float64: 8, int32: 4, uint8: 1 };

const CONSTRUCTORS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  uint8: Uint8Array,
} as const;

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
 * The element type of an array, or `undefined` for anything that the collectives do not take. The array may come from
 * another realm, such as that of a Jest test or of `node:vm`.
 */
export function elementTypeOf(array: unknown): ElementType | undefined {
  if (isFloat32Array(array)) return 'float32';
  if (isFloat64Array(array)) return 'float64';
  if (isInt32Array(array)) return 'int32';
  return isUint8Array(array) ? 'uint8' : undefined;
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

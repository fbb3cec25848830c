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

/** The element type of an array, or `undefined` for anything that the collectives do not take. */
export function elementTypeOf(array: unknown): ElementType | undefined {
  const types = Object.keys(CONSTRUCTORS) as ElementType[];
  return types.find(type => array instanceof CONSTRUCTORS[type]);
}

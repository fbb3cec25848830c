import { isFloat32Array, isUint16Array } from 'node:util/types';
import { invalidArgument } from '../errors';

/** The floats of 16 bits: IEEE 754 binary16, and the upper half of a float32. */
export const HALF_TYPES = ['float16', 'bfloat16'] as const;
export type HalfType = (typeof HALF_TYPES)[number];

/**
 * Returns the bits of numbers in a format of 16 bits, each rounded to the nearest number of the format, halves to even.
 * Numbers too large for the format become infinite. Collectives reduce such bits with `{ as: 'float16' }` or
 * `{ as: 'bfloat16' }`.
 *
 * ```ts
 * const bits = floatsToBits(Float32Array.of(1, ring.rank), 'bfloat16');
 * await ring.allReduce(bits, { as: 'bfloat16' });
 * console.log(bitsToFloats(bits, 'bfloat16')); // Float32Array(2) [ 2, 1 ]
 * ```
 *
 * @returns A new array.
 * @throws GradringError `ERR_INVALID_ARGUMENT` for another array or format.
 */
export function floatsToBits(values: Float32Array, as: HalfType): Uint16Array {
  requireHalfType(as);
  if (!isFloat32Array(values)) throw invalidArgument('floatsToBits takes a Float32Array.');
  const toBits = as === 'float16' ? float16Of : bfloat16Of;
  const bits = new Uint16Array(values.length);
  const single = new Float32Array(1);
  const singleBits = new Uint32Array(single.buffer);
  for (let i = 0; i < bits.length; i++) {
    single[0] = values[i]!;
    const magnitude = singleBits[0]! & 0x7fffffff;
    bits[i] = magnitude > 0x7f800000 ? NOT_A_NUMBER[as] : ((singleBits[0]! >>> 16) & 0x8000) | toBits(magnitude);
  }
  return bits;
}

/**
 * Returns the numbers that {@link floatsToBits} has made bits of. None is rounded.
 *
 * ```ts
 * console.log(bitsToFloats(Uint16Array.of(0x3c00, 0xc000), 'float16')); // Float32Array(2) [ 1, -2 ]
 * ```
 *
 * @returns A new array.
 * @throws GradringError `ERR_INVALID_ARGUMENT` for another array or format.
 */
export function bitsToFloats(bits: Uint16Array, as: HalfType): Float32Array {
  requireHalfType(as);
  if (!isUint16Array(bits)) throw invalidArgument('bitsToFloats takes a Uint16Array.');
  const values = new Float32Array(bits.length);
  if (as === 'bfloat16') {
    const wide = new Uint32Array(values.buffer);
    for (let i = 0; i < bits.length; i++) wide[i] = bits[i]! << 16;
  } else {
    for (let i = 0; i < bits.length; i++) values[i] = float16Value(bits[i]!);
  }
  return values;
}

const NOT_A_NUMBER = { float16: 0x7e00, bfloat16: 0x7fc0 };

/** Of the bits of a positive float32. A carry out of the fraction increases the exponent, as it should. */
function bfloat16Of(magnitude: number): number {
  return (magnitude + 0x7fff + ((magnitude >>> 16) & 1)) >>> 16;
}

function float16Of(magnitude: number): number {
  const exponent = (magnitude >>> 23) - 112; // the exponent of the float16
  if (exponent > 30) return 0x7c00;
  // A subnormal number has the exponent 1 and no leading bit of its own, so more of the fraction is cut off.
  const cut = exponent >= 1 ? 13 : Math.min(14 - exponent, 31);
  const fraction = exponent >= 1 ? magnitude - 112 * 2 ** 23 : (magnitude & 0x7fffff) | 0x800000;
  const odd = (fraction >>> cut) & 1;
  return (fraction + 2 ** (cut - 1) - 1 + odd) >>> cut;
}

function float16Value(bits: number): number {
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
export function requireHalfType(as: unknown): asserts as is HalfType {
  if ((HALF_TYPES as readonly unknown[]).includes(as)) return;
  throw invalidArgument(`as is '${String(as)}'; it must be one of ${HALF_TYPES.join(', ')}.`);
}

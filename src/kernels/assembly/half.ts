// Floats of 16 bits, one at a time. What is computed with them is computed in float32, and rounded once.

/** The two formats: IEEE 754 binary16, and the upper half of a float32. */
export const enum HalfFormat {
  Float16,
  Bfloat16,
}

const INFINITE: u32 = 0x7f800000;
/** 2⁻¹⁴ of float32: a smaller float16 is subnormal. */
const NORMAL_FLOAT16: u32 = 0x38800000;
/** By so much the exponents of float32 and float16 differ. */
const REBIAS: u32 = 112 << 23;

/** The value of 16 bits. Every value of both formats is a float32. */
@inline
export function widened(format: HalfFormat, bits: u16): f32 {
  if (format == HalfFormat.Bfloat16) return reinterpret<f32>(<u32>bits << 16);
  const sign = (<u32>bits & 0x8000) << 16;
  const magnitude = <u32>bits & 0x7fff;
  if (magnitude >= 0x7c00) return reinterpret<f32>(sign | INFINITE | ((magnitude & 0x3ff) << 13));
  if (magnitude >= 0x0400) return reinterpret<f32>(sign | ((magnitude << 13) + REBIAS));
  // A subnormal: so many times 2⁻²⁴.
  return copysign<f32>(<f32>magnitude * 5.9604644775390625e-8, reinterpret<f32>(sign));
}

/** The nearest value of the format, halves to even. There is one NaN, so that all machines write the same. */
@inline
export function halfOf(format: HalfFormat, value: f32): u16 {
  const bits = reinterpret<u32>(value);
  const sign = <u16>((bits >> 16) & 0x8000);
  const magnitude = bits & 0x7fffffff;
  if (format == HalfFormat.Bfloat16) {
    if (magnitude > INFINITE) return 0x7fc0;
    return sign | <u16>((magnitude + 0x7fff + ((magnitude >> 16) & 1)) >> 16);
  }
  if (magnitude > INFINITE) return 0x7e00;
  // The sum with ½ has a last bit of 2⁻²⁴, as subnormal numbers have: the addition rounds.
  if (magnitude < NORMAL_FLOAT16) {
    return sign | <u16>(reinterpret<u32>(reinterpret<f32>(magnitude) + 0.5) - 0x3f000000);
  }
  const rounded = (magnitude - REBIAS + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  return sign | <u16>min<u32>(rounded, 0x7c00);
}

const EXPONENT: u32 = 0x7f800000;

export function sumOfSquares(data: usize, elementCount: u32): f64 {
  const bytes = <usize>elementCount << 2;
  // Two chains of additions, so that one need not wait for the other's latency.
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  let at: usize = 0;
  for (; at < (bytes & ~15); at += 16) {
    const a = f64x2.promote_low_f32x4(v128.load64_zero(data + at));
    const b = f64x2.promote_low_f32x4(v128.load64_zero(data + at, 8));
    low = f64x2.add(low, f64x2.mul(a, a));
    high = f64x2.add(high, f64x2.mul(b, b));
  }
  const sums = f64x2.add(low, high);
  let sum = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (; at < bytes; at += 4) {
    const x = <f64>load<f32>(data + at);
    sum += x * x;
  }
  return sum;
}

export function firstNonFinite(data: usize, elementCount: u32): i32 {
  const exponents = i32x4.splat(EXPONENT);
  let i: u32 = 0;
  for (; i + 4 <= elementCount; i += 4) {
    const bits = v128.load(data + (<usize>i << 2));
    // The element-wise loop below finds which of the four.
    if (v128.any_true(i32x4.eq(v128.and(bits, exponents), exponents))) break;
  }
  for (; i < elementCount; i++) {
    if ((load<u32>(data + (<usize>i << 2)) & EXPONENT) == EXPONENT) return <i32>i;
  }
  return -1;
}

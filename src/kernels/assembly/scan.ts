import { PAGE, PAGES } from './lanes';

const EXPONENT: u32 = 0x7f800000;

@inline
function squaresOfTwo(data: usize): v128 {
  const x = f64x2.promote_low_f32x4(v128.load64_zero(data));
  return f64x2.mul(x, x);
}

export function sumOfSquares(data: usize, elementCount: u32): f64 {
  const end = data + (<usize>elementCount << 2);
  // Several independent sums, so that an addition need not wait for the one before.
  let a = f64x2.splat(0);
  let b = f64x2.splat(0);
  let c = f64x2.splat(0);
  let d = f64x2.splat(0);
  while (data + PAGES <= end) {
    for (const page = data + PAGE; data < page; data += 16) {
      a = f64x2.add(a, f64x2.add(squaresOfTwo(data), squaresOfTwo(data + 8)));
      b = f64x2.add(b, f64x2.add(squaresOfTwo(data + PAGE), squaresOfTwo(data + (PAGE + 8))));
      c = f64x2.add(c, f64x2.add(squaresOfTwo(data + 2 * PAGE), squaresOfTwo(data + (2 * PAGE + 8))));
      d = f64x2.add(d, f64x2.add(squaresOfTwo(data + 3 * PAGE), squaresOfTwo(data + (3 * PAGE + 8))));
    }
    data += PAGES - PAGE;
  }
  for (; data + 16 <= end; data += 16) {
    a = f64x2.add(a, squaresOfTwo(data));
    b = f64x2.add(b, squaresOfTwo(data + 8));
  }
  const sums = f64x2.add(f64x2.add(a, b), f64x2.add(c, d));
  let sum = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (; data < end; data += 4) {
    const x = <f64>load<f32>(data);
    sum += x * x;
  }
  return sum;
}

@inline
function nonFinite(data: usize): v128 {
  const exponents = i32x4.splat(EXPONENT);
  return i32x4.eq(v128.and(v128.load(data), exponents), exponents);
}

export function allFinite(data: usize, elementCount: u32): bool {
  const end = data + (<usize>elementCount << 2);
  while (data + PAGES <= end) {
    let found = i32x4.splat(0);
    for (const page = data + PAGE; data < page; data += 16) {
      const ofTwo = v128.or(nonFinite(data), nonFinite(data + PAGE));
      found = v128.or(found, v128.or(ofTwo, v128.or(nonFinite(data + 2 * PAGE), nonFinite(data + 3 * PAGE))));
    }
    if (v128.any_true(found)) return false;
    data += PAGES - PAGE;
  }
  for (; data + 16 <= end; data += 16) if (v128.any_true(nonFinite(data))) return false;
  for (; data < end; data += 4) if ((load<u32>(data) & EXPONENT) == EXPONENT) return false;
  return true;
}

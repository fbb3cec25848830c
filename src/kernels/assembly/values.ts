// Values to symbols and back. A symbol is 2 · the magnitude in the coarser format, plus 1 if the value is negative.
import { largestLane, loadLanes, PAGE, PAGES, storeLanes } from './lanes';
import { MAGNITUDE, magnitudes } from './pack';

/** The largest finite float32. */
const LARGEST: f32 = 3.4028234663852886e38;
/** 2⁻¹¹² and its inverse: they turn exponents of float32 into those of float16, also subnormal ones, and back. */
const REBIAS: f32 = 1.925929944387236e-34;
const UNBIAS: f32 = 5.192296858534828e33;
/** The largest float16 below 2¹⁵. The scale keeps values below it, so that no value overflows when it is decoded. */
const LARGEST_FLOAT16: u32 = 0x77ff;
const LARGEST_BFLOAT16: u32 = 0x7f7f;

@inline
function signsOf(lanes: v128): v128 {
  return v128.and(lanes, i32x4.splat(0x80000000));
}

@inline
function symbolsOf(magnitude: v128, lanes: v128): v128 {
  return v128.or(i32x4.shl(magnitude, 1), i32x4.shr_u(lanes, 31));
}

/** Rounds magnitudes to fewer bits, halves to even. */
@inline
function roundOff(magnitude: v128, bits: u32): v128 {
  const odd = v128.and(i32x4.shr_u(magnitude, bits), i32x4.splat(1));
  return i32x4.shr_u(i32x4.add(magnitude, i32x4.add(odd, i32x4.splat((1 << (bits - 1)) - 1))), bits);
}

const enum Format {
  Float32,
  Float16,
  Bfloat16,
  Int8,
}

@inline
function magnitudeIn(format: Format, lanes: v128, scale: v128): v128 {
  const magnitude = magnitudes(lanes);
  if (format == Format.Float32) return magnitude;
  if (format == Format.Float16) {
    const rebiased = f32x4.mul(f32x4.mul(magnitude, scale), f32x4.splat(REBIAS));
    return i32x4.min_u(roundOff(rebiased, 13), i32x4.splat(LARGEST_FLOAT16));
  }
  if (format == Format.Bfloat16) return i32x4.min_u(roundOff(magnitude, 16), i32x4.splat(LARGEST_BFLOAT16));
  // Halves to even. So half of the scale becomes 0, and the rounded value is never more than twice the value.
  return i32x4.min_u(i32x4.trunc_sat_f32x4_u(f32x4.nearest(f32x4.div(magnitude, scale))), i32x4.splat(127));
}

@inline
function absoluteOf(format: Format, magnitude: v128, scale: v128): v128 {
  if (format == Format.Float32) return magnitude;
  if (format == Format.Float16) {
    return f32x4.mul(f32x4.mul(i32x4.shl(magnitude, 13), f32x4.splat(UNBIAS)), scale);
  }
  if (format == Format.Bfloat16) return i32x4.shl(magnitude, 16);
  return f32x4.pmin(f32x4.mul(f32x4.convert_i32x4_u(magnitude), scale), f32x4.splat(LARGEST));
}

/** The range of the symbols of the last call that quantized. Such a call returns their sum. */
export let smallestSymbol: u32 = 0;
export let largestSymbol: u32 = 0;

/** Quantizes four values in place, and returns their symbols. */
@inline
function quantizeLanes(format: Format, values: usize, scales: v128, unscales: v128): v128 {
  const lanes = v128.load(values);
  const magnitude = magnitudeIn(format, lanes, scales);
  if (format != Format.Float32) {
    v128.store(values, v128.or(absoluteOf(format, magnitude, unscales), signsOf(lanes)));
  }
  return symbolsOf(magnitude, lanes);
}

@inline
function widened(lanes: v128): v128 {
  return i64x2.add(i64x2.extend_low_i32x4_u(lanes), i64x2.extend_high_i32x4_u(lanes));
}

@inline
function quantize(format: Format, values: usize, count: u32, scale: f32, unscale: f32, symbols: usize): f64 {
  const scales = f32x4.splat(scale);
  const unscales = f32x4.splat(unscale);
  const none = i32x4.splat(-1);
  let smallest = none;
  let largest = i32x4.splat(0);
  let sums = i64x2.splat(0);
  const bytes = <usize>count << 2;
  let at: usize = 0;
  for (; at + 64 <= bytes; at += 64) {
    const a = quantizeLanes(format, values + at, scales, unscales);
    const b = quantizeLanes(format, values + at + 16, scales, unscales);
    const c = quantizeLanes(format, values + at + 32, scales, unscales);
    const d = quantizeLanes(format, values + at + 48, scales, unscales);
    v128.store(symbols + at, a);
    v128.store(symbols + at, b, 16);
    v128.store(symbols + at, c, 32);
    v128.store(symbols + at, d, 48);
    largest = i32x4.max_u(largest, i32x4.max_u(i32x4.max_u(a, b), i32x4.max_u(c, d)));
    smallest = i32x4.min_u(smallest, i32x4.min_u(i32x4.min_u(a, b), i32x4.min_u(c, d)));
    // All formats but float32 have symbols of at most 16 bits, so a sum of four fits into 32 bits.
    sums = i64x2.add(
      sums,
      format == Format.Float32
        ? i64x2.add(i64x2.add(widened(a), widened(b)), i64x2.add(widened(c), widened(d)))
        : widened(i32x4.add(i32x4.add(a, b), i32x4.add(c, d))),
    );
  }
  for (; at < bytes; at += 16) {
    const left = <u32>(bytes - at) >> 2;
    const lanes = loadLanes(values + at, left);
    const magnitude = magnitudeIn(format, lanes, scales);
    const symbol = symbolsOf(magnitude, lanes);
    storeLanes(symbols + at, symbol, left);
    if (format != Format.Float32) {
      storeLanes(values + at, v128.or(absoluteOf(format, magnitude, unscales), signsOf(lanes)), left);
    }
    // The zeros behind the last element change neither the largest nor the sum.
    largest = i32x4.max_u(largest, symbol);
    sums = i64x2.add(sums, widened(symbol));
    const there = i32x4.lt_u(i32x4(0, 1, 2, 3), i32x4.splat(left));
    smallest = i32x4.min_u(smallest, v128.bitselect(symbol, none, there));
  }
  smallestSymbol = ~largestLane(v128.not(smallest));
  largestSymbol = largestLane(largest);
  return <f64>(<u64>i64x2.extract_lane(sums, 0) + <u64>i64x2.extract_lane(sums, 1));
}

@inline
function dequantize(format: Format, symbols: usize, count: u32, scale: f32, limit: u32, values: usize): bool {
  const scales = f32x4.splat(scale);
  const limits = i32x4.splat(limit);
  let over = i32x4.splat(0);
  for (let i: u32 = 0; i < count; i += 4) {
    const at = <usize>i << 2;
    const lanes = loadLanes(symbols + at, count - i);
    const magnitude = i32x4.shr_u(lanes, 1);
    over = v128.or(over, i32x4.gt_u(magnitude, limits));
    storeLanes(values + at, v128.or(absoluteOf(format, magnitude, scales), i32x4.shl(lanes, 31)), count - i);
  }
  return !v128.any_true(over);
}

export function quantizeFloat32(values: usize, count: u32, symbols: usize): f64 {
  return quantize(Format.Float32, values, count, 1, 1, symbols);
}

export function quantizeFloat16(values: usize, count: u32, exponent: i32, symbols: usize): f64 {
  return quantize(Format.Float16, values, count, powerOfTwo(exponent), powerOfTwo(-exponent), symbols);
}

export function quantizeBfloat16(values: usize, count: u32, symbols: usize): f64 {
  return quantize(Format.Bfloat16, values, count, 1, 1, symbols);
}

export function quantizeInt8(values: usize, count: u32, scale: f32, symbols: usize): f64 {
  return quantize(Format.Int8, values, count, scale, scale, symbols);
}

export function dequantizeFloat32(symbols: usize, count: u32, values: usize): bool {
  return dequantize(Format.Float32, symbols, count, 1, 0x7f7fffff, values);
}

export function dequantizeFloat16(symbols: usize, count: u32, exponent: i32, values: usize): bool {
  return dequantize(Format.Float16, symbols, count, powerOfTwo(-exponent), LARGEST_FLOAT16, values);
}

export function dequantizeBfloat16(symbols: usize, count: u32, values: usize): bool {
  return dequantize(Format.Bfloat16, symbols, count, 1, LARGEST_BFLOAT16, values);
}

export function dequantizeInt8(symbols: usize, count: u32, scale: f32, values: usize): bool {
  return dequantize(Format.Int8, symbols, count, scale, 127, values);
}

/** Exponents from −126 to 127. */
@inline
function powerOfTwo(exponent: i32): f32 {
  return reinterpret<f32>((exponent + 127) << 23);
}

/** `levels`: eight float32, ascending, the first of them 0. */
export function quantizeLevels(values: usize, count: u32, levels: usize, symbols: usize): f64 {
  smallestSymbol = u32.MAX_VALUE;
  largestSymbol = 0;
  let sum: u64 = 0;
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    const bits = load<u32>(values + at);
    const absolute = reinterpret<f32>(bits & MAGNITUDE);
    let level: u32 = 0;
    for (; level < 7; level++) {
      const below = load<f32>(levels + (<usize>level << 2));
      const above = load<f32>(levels + (<usize>level << 2), 4);
      // Halved first, because the sum could overflow. A value in the middle takes the lower level.
      if (absolute <= below * 0.5 + above * 0.5) break;
    }
    const symbol = (level << 1) | (bits >> 31);
    smallestSymbol = min<u32>(smallestSymbol, symbol);
    largestSymbol = max<u32>(largestSymbol, symbol);
    sum += symbol;
    store<u32>(symbols + at, symbol);
    store<u32>(values + at, load<u32>(levels + (<usize>level << 2)) | (bits & ~MAGNITUDE));
  }
  return <f64>sum;
}

export function dequantizeLevels(symbols: usize, count: u32, levels: usize, values: usize): bool {
  let over = false;
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    const symbol = load<u32>(symbols + at);
    over = over || symbol > 15;
    store<u32>(values + at, load<u32>(levels + (<usize>((symbol >> 1) & 7) << 2)) | (symbol << 31));
  }
  return !over;
}

export function largestMagnitude(values: usize, count: u32): u32 {
  const end = values + (<usize>count << 2);
  let largest = i32x4.splat(0);
  while (values + PAGES <= end) {
    for (const page = values + PAGE; values < page; values += 16) {
      const a = i32x4.max_u(magnitudes(v128.load(values)), magnitudes(v128.load(values + PAGE)));
      const b = i32x4.max_u(magnitudes(v128.load(values + 2 * PAGE)), magnitudes(v128.load(values + 3 * PAGE)));
      largest = i32x4.max_u(largest, i32x4.max_u(a, b));
    }
    values += PAGES - PAGE;
  }
  for (; values < end; values += 16) {
    largest = i32x4.max_u(largest, magnitudes(loadLanes(values, <u32>(end - values) >> 2)));
  }
  return largestLane(largest);
}

export function smallestMagnitude(values: usize, count: u32): u32 {
  // 0 − 1 wraps around to the largest number.
  const one = i32x4.splat(1);
  let smallest = i32x4.splat(-1);
  for (let i: u32 = 0; i < count; i += 4) {
    const lanes = magnitudes(loadLanes(values + (<usize>i << 2), count - i));
    smallest = i32x4.min_u(smallest, i32x4.sub(lanes, one));
  }
  return ~largestLane(v128.not(smallest)) + 1;
}

/** `mirror` is a literal at the calls, so it is compiled twice, without a branch inside. */
@inline
function movedLanes(mirror: bool, lanes: v128, offset: v128): v128 {
  if (!mirror) return i32x4.add(lanes, offset);
  const sign = v128.and(lanes, i32x4.splat(1));
  return v128.or(i32x4.sub(offset, v128.xor(lanes, sign)), sign);
}

@inline
function moveSymbols(mirror: bool, symbols: usize, count: u32, magnitude: u32): void {
  const offset = i32x4.splat(magnitude << 1);
  const end = symbols + (<usize>count << 2);
  for (; symbols + 64 <= end; symbols += 64) {
    v128.store(symbols, movedLanes(mirror, v128.load(symbols), offset));
    v128.store(symbols, movedLanes(mirror, v128.load(symbols, 16), offset), 16);
    v128.store(symbols, movedLanes(mirror, v128.load(symbols, 32), offset), 32);
    v128.store(symbols, movedLanes(mirror, v128.load(symbols, 48), offset), 48);
  }
  for (; symbols < end; symbols += 16) {
    const left = <u32>(end - symbols) >> 2;
    storeLanes(symbols, movedLanes(mirror, loadLanes(symbols, left), offset), left);
  }
}

export function raiseSymbols(symbols: usize, count: u32, magnitude: u32): void {
  moveSymbols(false, symbols, count, magnitude);
}

export function mirrorSymbols(symbols: usize, count: u32, magnitude: u32): void {
  moveSymbols(true, symbols, count, magnitude);
}

import {
  addressOf,
  bitOf,
  byteOf,
  position,
  putBits,
  bitsAt,
  startWritingAt,
  writtenBefore,
} from './bits';
import { loadLanes } from './lanes';
import { ESCAPE, MOST_BITS } from './rice-code';
import { riceDecode } from './rice-decode';

/** The counts of {@link riceCost} for the parameters below and above the given one. */
let costBelow: u32 = 0;
let costAbove: u32 = 0;

/** The most bits that a code has beyond parameter + 1, which is the minimum. */
@inline
function mostExtraBits(parameter: u32): v128 {
  return i32x4.splat(ESCAPE + 31 - parameter);
}

@inline
function sumOf(lanes: v128): u32 {
  return (
    i32x4.extract_lane(lanes, 0) +
    i32x4.extract_lane(lanes, 1) +
    i32x4.extract_lane(lanes, 2) +
    i32x4.extract_lane(lanes, 3)
  );
}

@inline
function sumOfLeast(a: v128, b: v128, c: v128, d: v128, most: v128): v128 {
  return i32x4.add(
    i32x4.add(i32x4.min_u(a, most), i32x4.min_u(b, most)),
    i32x4.add(i32x4.min_u(c, most), i32x4.min_u(d, most)),
  );
}

export function riceCost(symbols: usize, count: u32, parameter: u32): u32 {
  // Counts three neighbouring parameters at once. So only one shift has a variable width, which takes five
  // instructions.
  const first = min<u32>(max<u32>(parameter, 1) - 1, 29);
  const most0 = mostExtraBits(first);
  const most1 = mostExtraBits(first + 1);
  const most2 = mostExtraBits(first + 2);
  let sum0 = i32x4.splat(0);
  let sum1 = i32x4.splat(0);
  let sum2 = i32x4.splat(0);
  const bytes = <usize>count << 2;
  let at: usize = 0;
  for (; at + 64 <= bytes; at += 64) {
    const a = i32x4.shr_u(v128.load(symbols + at), first);
    const b = i32x4.shr_u(v128.load(symbols + at, 16), first);
    const c = i32x4.shr_u(v128.load(symbols + at, 32), first);
    const d = i32x4.shr_u(v128.load(symbols + at, 48), first);
    sum0 = i32x4.add(sum0, sumOfLeast(a, b, c, d, most0));
    sum1 = i32x4.add(sum1, sumOfLeast(i32x4.shr_u(a, 1), i32x4.shr_u(b, 1), i32x4.shr_u(c, 1), i32x4.shr_u(d, 1), most1));
    sum2 = i32x4.add(sum2, sumOfLeast(i32x4.shr_u(a, 2), i32x4.shr_u(b, 2), i32x4.shr_u(c, 2), i32x4.shr_u(d, 2), most2));
  }
  for (; at < bytes; at += 16) {
    // Zeros behind the last symbol add nothing.
    const quotients = i32x4.shr_u(loadLanes(symbols + at, <u32>(bytes - at) >> 2), first);
    sum0 = i32x4.add(sum0, i32x4.min_u(quotients, most0));
    sum1 = i32x4.add(sum1, i32x4.min_u(i32x4.shr_u(quotients, 1), most1));
    sum2 = i32x4.add(sum2, i32x4.min_u(i32x4.shr_u(quotients, 2), most2));
  }
  const cost0 = sumOf(sum0) + count * (first + 1);
  const cost1 = sumOf(sum1) + count * (first + 2);
  const cost2 = sumOf(sum2) + count * (first + 3);
  costBelow = parameter == 31 ? cost1 : cost0;
  costAbove = parameter == 0 ? cost1 : cost2;
  return parameter == 0 ? cost0 : parameter == 31 ? cost2 : cost1;
}

/** The result of {@link riceParameter}'s search so far. It belongs to the instance, so to one thread. */
let best: u32 = 0;
let least: u32 = 0;

/** Tries a parameter and the ones below and above it, with one count. */
function improves(symbols: usize, count: u32, parameter: u32): bool {
  const at = riceCost(symbols, count, parameter);
  const cost = min<u32>(at, min<u32>(costBelow, costAbove));
  if (cost >= least) return false;
  least = cost;
  if (cost == at) best = parameter;
  else best = cost == costBelow ? parameter - 1 : parameter + 1;
  return true;
}

export function riceParameter(symbols: usize, count: u32, mean: u32, far: bool): u32 {
  best = 0;
  least = u32.MAX_VALUE;
  const start: u32 = 31 - clz(max<u32>(1, mean));
  improves(symbols, count, start);
  // A parameter larger by one halves each quotient and adds a bit. So it saves nothing if the mean quotient is at most
  // 1. Usually this makes a second count unnecessary.
  if (best > start && least > count * (best + 2)) {
    for (let p = start + 3; p <= 32 && improves(symbols, count, min<u32>(31, p)); p += 3) {}
  }
  if (best < start || far) {
    for (let p = <i32>start - 3; p > -2; p -= 3) {
      if (!improves(symbols, count, max<i32>(0, p)) && !far) break;
    }
  }
  return best;
}

/** The largest length minus one for which two codes fit into {@link MOST_BITS}, and for which four do. */
const SHORT_OF_TWO: u32 = 27;
const SHORT_OF_FOUR: u32 = 13;

/** 2 to the power of each of four lanes, up to 22. */
@inline
function powersOfFour(exponents: v128): v128 {
  // Computed as floats. After adding 2^23, the fraction is the number.
  const floats = i32x4.shl(i32x4.add(exponents, i32x4.splat(127)), 23);
  return v128.xor(f32x4.add(floats, f32x4.splat(8388608)), f32x4.splat(8388608));
}

/** 2 to the power of each of eight lanes plus `base`, up to 15. */
@inline
function powersOfEight(exponents: v128, base: u32): v128 {
  // The lower byte is looked up with the exponent, the upper one with the exponent minus 8. An index outside the table,
  // also a negative one, gives zero.
  const powers = i8x16(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
  return i8x16.swizzle(powers, i16x8.add(i16x8.mul(exponents, i16x8.splat(0x101)), i16x8.splat(<i16>(base * 0x101 - 0x800))));
}

/**
 * Joins four codes less than 2^32: the first and second in the lower lane, the third and fourth in the upper lane.
 *
 * @param steps 2 to the power of the length of each code.
 */
@inline
function joinTwo(codes: v128, steps: v128): v128 {
  // The second and fourth code are shifted by the length of the code before, which is a multiplication.
  const moved = i64x2.extmul_low_i32x4_u(
    v128.shuffle<i32>(codes, codes, 1, 3, 1, 3),
    v128.shuffle<i32>(steps, steps, 0, 2, 0, 2),
  );
  return v128.or(v128.and(codes, i64x2.splat(0xffffffff)), moved);
}

// The remainder is before the ones of the quotient, not behind them as in textbooks. So the position of the zero behind
// them is also the length of the code, which saves a shift. Both loops spend their time on variable shifts.

@inline
function lengthOf(symbol: u64, parameter: u64): u64 {
  const quotient = symbol >> parameter;
  return quotient < ESCAPE ? quotient + 1 + parameter : ESCAPE + 32;
}

@inline
function codeOf(symbol: u64, parameter: u64): u64 {
  const quotient = symbol >> parameter;
  const remainder = symbol & ((<u64>1 << parameter) - 1);
  const ones = (<u64>1 << min<u64>(quotient, ESCAPE)) - 1;
  return remainder | (ones << parameter) | (quotient < ESCAPE ? 0 : quotient << (parameter + ESCAPE));
}

/**
 * Writes a code of at most {@link MOST_BITS}, and zeros up to the end of its last byte. Returns the end of the code.
 */
@inline
function append(at: u64, code: u64, length: u64): u64 {
  const byte = <usize>(at >> 3);
  store<u64>(byte, (code << (at & 7)) | <u64>load<u8>(byte));
  return at + length;
}

/**
 * {@link append}s the codes in two lanes. Their lengths are the lower halves of the lanes in `lengths`, plus `base`.
 */
@inline
function appendBoth(at: u64, codes: v128, lengths: v128, base: u64): u64 {
  const length = <u64>i32x4.extract_lane(lengths, 0) + base;
  const upperLength = <u64>i32x4.extract_lane(lengths, 2) + base;
  const code = i64x2.extract_lane(codes, 0);
  const upperCode = i64x2.extract_lane(codes, 1);
  if (length + upperLength <= MOST_BITS) return append(at, code | (upperCode << length), length + upperLength);
  return append(append(at, code, length), upperCode, upperLength);
}

export function riceEncode(symbols: usize, count: u32, parameter: u32, into: f64): f64 {
  let at = <u64>into;
  store<u8>(byteOf(into), <u8>writtenBefore(byteOf(into), bitOf(into)));
  const step: u32 = 1 << parameter;
  // With a large parameter, no code is short.
  const tooLong = i16x8.splat(parameter <= SHORT_OF_FOUR ? <i16>(0x7fff + parameter - SHORT_OF_FOUR) : -1);
  const mayBeTwo = parameter <= SHORT_OF_TWO;
  const largest = i32x4.splat(min<u32>(ESCAPE - 1, SHORT_OF_TWO - parameter));
  const end = symbols + (<usize>count << 2);
  while (symbols < end) {
    // 2^zero − 2^parameter are the ones of the quotient, at their position.
    if (symbols + 32 <= end) {
      // A symbol that does not fit into 16 bits becomes the largest number that does, or the one after it if signs are
      // ignored. Its code is too long, too.
      const lanes = i16x8.narrow_i32x4_s(v128.load(symbols), v128.load(symbols, 16));
      const quotients = i16x8.shr_u(lanes, parameter);
      // The highest bit is set for codes that are too long, and for no others.
      if ((i8x16.bitmask(i16x8.add_sat_u(quotients, tooLong)) & 0xaaaa) == 0) {
        const powers = powersOfEight(quotients, parameter);
        const remainders = v128.and(lanes, i16x8.splat(<i16>(step - 1)));
        const codes = i16x8.add(remainders, i16x8.sub(powers, i16x8.splat(<i16>step)));
        // first · 1 + second · 2^length of the first.
        const pairs = i32x4.dot_i16x8_s(codes, v128.or(i32x4.shl(powers, 17), i32x4.splat(1)));
        const pairPowers = i32x4.dot_i16x8_s(powers, i32x4.shr_u(powers, 16));
        const ones = i32x4.dot_i16x8_s(quotients, i16x8.splat(1));
        const lengths = i64x2.add(ones, i64x2.shr_u(ones, 32));
        at = appendBoth(at, joinTwo(pairs, i32x4.shl(pairPowers, 2)), lengths, 4 * (<u64>parameter + 1));
        symbols += 32;
        continue;
      }
    }
    if (mayBeTwo && symbols + 16 <= end) {
      const lanes = v128.load(symbols);
      const quotients = i32x4.shr_u(lanes, parameter);
      if (!v128.any_true(i32x4.gt_u(quotients, largest))) {
        const powers = i32x4.mul(powersOfFour(quotients), i32x4.splat(step));
        const remainders = v128.and(lanes, i32x4.splat(step - 1));
        const codes = i32x4.add(remainders, i32x4.sub(powers, i32x4.splat(step)));
        const lengths = i64x2.add(quotients, i64x2.shr_u(quotients, 32));
        at = appendBoth(at, joinTwo(codes, i32x4.shl(powers, 1)), lengths, 2 * (<u64>parameter + 1));
        symbols += 16;
        continue;
      }
    }
    const symbol = <u64>load<u32>(symbols);
    at = append(at, codeOf(symbol, parameter), lengthOf(symbol, parameter));
    symbols += 4;
  }
  return <f64>at;
}

export function encodeClusters(symbols: usize, count: u32, small: u32, parameter: u32, into: f64): f64 {
  startWritingAt(into);
  const limit: u64 = <u64>1 << small;
  for (const end = symbols + (<usize>count << 2); symbols < end; symbols += 4) {
    const symbol = <u64>load<u32>(symbols);
    if (symbol < limit) {
      putBits(<u32>symbol << 1, small + 1);
    } else {
      const far = symbol - limit;
      const length = lengthOf(far, parameter);
      putBits(1, 1);
      // In two parts, because codes may be longer than 32 bits.
      const code = codeOf(far, parameter);
      putBits(<u32>code, min<u32>(<u32>length, 32));
      if (length > 32) putBits(<u32>(code >> 32), <u32>length - 32);
    }
  }
  return position();
}

export function decodeClusters(symbols: usize, count: u32, small: u32, parameter: u32, from: f64, until: f64): f64 {
  const limit: u32 = 1 << small;
  let at = from;
  for (const last = symbols + (<usize>count << 2); symbols < last; symbols += 4) {
    if (bitsAt(1, at) == 0) {
      store<u32>(symbols, bitsAt(small, at + 1));
      at += 1 + small;
    } else {
      at = riceDecode(symbols, 1, parameter, at + 1, until);
      store<u32>(symbols, load<u32>(symbols) + limit);
    }
    if (at < 0 || at > until) return -1;
  }
  return at;
}

export function countBelow(symbols: usize, count: u32, limit: u32): f64 {
  const limits = i32x4.splat(limit);
  let below: u32 = 0;
  let i: u32 = 0;
  for (; i + 4 <= count; i += 4) {
    below += popcnt(i32x4.bitmask(i32x4.lt_u(v128.load(symbols + (<usize>i << 2)), limits)));
  }
  for (; i < count; i++) if (load<u32>(symbols + (<usize>i << 2)) < limit) below++;
  return below;
}

import { ESCAPE, MOST_BITS } from './rice-code';

export function riceDecode(symbols: usize, count: u32, parameter: u32, from: f64, until: f64): f64 {
  let at = <u64>from;
  const end = <u64>until;
  const shift = <u64>parameter;
  const step = <u64>1 << shift;
  const mask = step - 1;
  const escaped = ESCAPE + shift;
  const quotients = shift * step;
  const last = symbols + (<usize>count << 2);
  while (symbols < last) {
    const bits = load<u64>(<usize>(at >> 3)) >> (at & 7);
    const zero = ctz(~(bits | mask));
    if (zero < escaped) {
      store<u32>(symbols, <u32>((bits & mask) + zero * step - quotients));
      symbols += 4;
      at += zero + 1;
      // A second symbol from the same load, if it is complete.
      const following = bits >> (zero + 1);
      const second = ctz(~(following | mask));
      if (second < escaped && zero + second + 1 < MOST_BITS && symbols < last) {
        store<u32>(symbols, <u32>((following & mask) + second * step - quotients));
        symbols += 4;
        at += second + 1;
      }
    } else {
      store<u32>(symbols, <u32>((bits & mask) | ((bits >> escaped) << shift)));
      symbols += 4;
      at += ESCAPE + 32;
    }
    if (at > end) return -1;
  }
  return <f64>at;
}

/** Where the second stream of the last {@link riceDecodeBoth} ended. */
export let secondEnd: f64 = 0;

export function riceDecodeBoth(
  count: u32,
  symbols: usize,
  parameter: u32,
  from: f64,
  until: f64,
  otherSymbols: usize,
  otherParameter: u32,
  otherFrom: f64,
  otherUntil: f64,
): f64 {
  let at = <u64>from;
  let otherAt = <u64>otherFrom;
  const end = <u64>until;
  const otherEnd = <u64>otherUntil;
  const mask = maskOf(parameter);
  const otherMask = maskOf(otherParameter);
  const quotients = parameter << parameter;
  const otherQuotients = otherParameter << otherParameter;
  const most = mostZerosOf(parameter);
  const otherMost = mostZerosOf(otherParameter);
  const last = symbols + (<usize>(count & ~1) << 2);
  while (symbols < last) {
    // Pairs of codes that certainly fit, so that the loop need not check for the end of the streams.
    const surely = min<u64>(bitsLeft(at, end), bitsLeft(otherAt, otherEnd)) / MOST_BITS;
    const pairs = min<usize>(last - symbols, <usize>surely << 3);
    // In one stream each code waits for the one before. Meanwhile the processor can work on another stream.
    for (const until = symbols + pairs; symbols < until; symbols += 8, otherSymbols += 8) {
      const bits = load<u64>(<usize>(at >> 3)) >> (at & 7);
      const zero = ctz((bits | mask) + 1);
      const following = bits >> (zero + 1);
      const second = ctz((following | mask) + 1);
      if (zero + second > most) break;
      store<u32>(symbols, symbolOf(bits, zero, mask, quotients));
      store<u32>(symbols, symbolOf(following, second, mask, quotients), 4);
      const otherBits = load<u64>(<usize>(otherAt >> 3)) >> (otherAt & 7);
      const otherZero = ctz((otherBits | otherMask) + 1);
      const otherFollowing = otherBits >> (otherZero + 1);
      const otherSecond = ctz((otherFollowing | otherMask) + 1);
      if (otherZero + otherSecond > otherMost) break;
      store<u32>(otherSymbols, symbolOf(otherBits, otherZero, otherMask, otherQuotients));
      store<u32>(otherSymbols, symbolOf(otherFollowing, otherSecond, otherMask, otherQuotients), 4);
      at += zero + second + 2;
      otherAt += otherZero + otherSecond + 2;
    }
    if (symbols >= last) break;
    const next = riceDecode(symbols, 2, parameter, <f64>at, until);
    const otherNext = riceDecode(otherSymbols, 2, otherParameter, <f64>otherAt, otherUntil);
    if (next < 0 || otherNext < 0) return -1;
    at = <u64>next;
    otherAt = <u64>otherNext;
    symbols += 8;
    otherSymbols += 8;
  }
  secondEnd = riceDecode(otherSymbols, count & 1, otherParameter, <f64>otherAt, otherUntil);
  return secondEnd < 0 ? -1 : riceDecode(symbols, count & 1, parameter, <f64>at, until);
}

@inline
function maskOf(parameter: u32): u64 {
  return (<u64>1 << parameter) - 1;
}

/**
 * The positions of the zeros of two codes add up to at most this if neither escapes and both fit into {@link
 * MOST_BITS}.
 */
@inline
function mostZerosOf(parameter: u32): u64 {
  return min<u64>(ESCAPE - 1 + 2 * parameter, MOST_BITS - 2);
}

@inline
function symbolOf(bits: u64, zero: u64, mask: u64, quotients: u32): u32 {
  return (<u32>bits & <u32>mask) + <u32>zero * (<u32>mask + 1) - quotients;
}

@inline
function bitsLeft(at: u64, end: u64): u64 {
  return max<i64>(0, <i64>(end - at));
}

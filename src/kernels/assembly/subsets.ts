// Sets of indices: the gaps between them, and their codes that are not Rice codes.
import { position, putBits, startAt, startWritingAt, takeBits } from './bits';

/** Stores and returns the gaps before four indices, none of which is the first one. */
@inline
function storeGaps(indices: usize, gaps: usize): v128 {
  const gap = i32x4.add(v128.load(indices), v128.not(v128.load(indices - 4)));
  v128.store(gaps, gap);
  return gap;
}

export function gapsOf(indices: usize, count: u32, first: u32, gaps: usize): f64 {
  if (count == 0) return 0;
  const end = indices + (<usize>count << 2);
  let bits = load<u32>(indices) - first;
  store<u32>(gaps, bits);
  indices += 4;
  gaps += 4;
  let lanes = i32x4.splat(0);
  for (; indices + 64 <= end; indices += 64, gaps += 64) {
    const low = v128.or(storeGaps(indices, gaps), storeGaps(indices + 16, gaps + 16));
    const high = v128.or(storeGaps(indices + 32, gaps + 32), storeGaps(indices + 48, gaps + 48));
    lanes = v128.or(lanes, v128.or(low, high));
  }
  for (; indices + 16 <= end; indices += 16, gaps += 16) lanes = v128.or(lanes, storeGaps(indices, gaps));
  for (; indices < end; indices += 4, gaps += 4) {
    const gap = load<u32>(indices) - load<u32>(indices - 4) - 1;
    store<u32>(gaps, gap);
    bits |= gap;
  }
  bits |= i32x4.extract_lane(lanes, 0) | i32x4.extract_lane(lanes, 1);
  return bits | i32x4.extract_lane(lanes, 2) | i32x4.extract_lane(lanes, 3);
}

export function indicesOf(gaps: usize, count: u32, first: u32, elementCount: u32, indices: usize): i32 {
  // 64 bits, so that the sum cannot wrap around.
  let next: u64 = first;
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    next += load<u32>(gaps + at);
    if (next >= elementCount) return -1;
    store<u32>(indices + at, <u32>next);
    next++;
  }
  return <i32>next;
}

/** About the median distance to the next of `left` uniformly distributed indices among `span` places. */
@inline
function median(span: u64, left: u64): u64 {
  // span · (1 − 2^(−1/left)), where 1 − 2^(−1/x) ≈ ln 2 / (x + ln 2 / 2), in units of 2⁻¹⁶.
  return max<u64>(1, (span * 45426 + left * 32768 + 11356) / (left * 65536 + 22713));
}

export function encodeSubset(gaps: usize, count: u32, places: u32, into: f64): f64 {
  startWritingAt(into);
  for (let i: u32 = 0; i < count; i++) {
    const left = count - i;
    let gap = load<u32>(gaps + (<usize>i << 2));
    while (true) {
      const half = <u32>median(places, left);
      const choices = places - left + 1;
      if (half >= choices) {
        putTruncated(gap, choices);
        break;
      }
      if (gap < half) {
        putBits(0, 1);
        putTruncated(gap, half);
        break;
      }
      putBits(1, 1);
      gap -= half;
      places -= half;
    }
    places -= gap + 1;
  }
  return position();
}

export function decodeSubset(gaps: usize, count: u32, places: u32, from: f64, until: f64): f64 {
  startAt(from);
  for (let i: u32 = 0; i < count; i++) {
    const left = count - i;
    let skipped: u32 = 0;
    let gap: u32 = 0;
    while (true) {
      const half = <u32>median(places, left);
      const choices = places - left + 1;
      if (half >= choices) {
        gap = takeTruncated(choices);
        break;
      }
      if (takeBits(1) == 0) {
        gap = takeTruncated(half);
        break;
      }
      skipped += half;
      places -= half;
      if (position() > until) return -1;
    }
    if (position() > until) return -1;
    places -= gap + 1;
    store<u32>(gaps + (<usize>i << 2), skipped + gap);
  }
  return position();
}

/** Writes one of `choices` values: in ⌊log₂ choices⌋ bits, or for the larger values in one bit more. */
@inline
function putTruncated(value: u32, choices: u32): void {
  const width: u32 = 31 - clz(choices);
  const short = <u32>((<u64>2 << width) - choices);
  if (value < short) {
    putBits(value, width);
  } else {
    putBits((value + short) >> 1, width);
    putBits((value + short) & 1, 1);
  }
}

@inline
function takeTruncated(choices: u32): u32 {
  const width: u32 = 31 - clz(choices);
  const short = <u32>((<u64>2 << width) - choices);
  const value = takeBits(width);
  return value < short ? value : ((value << 1) | takeBits(1)) - short;
}

export function encodeBitmap(gaps: usize, count: u32, into: f64): f64 {
  startWritingAt(into);
  for (let i: u32 = 0; i < count; i++) {
    let gap = load<u32>(gaps + (<usize>i << 2));
    for (; gap >= 31; gap -= 31) putBits(0, 31);
    putBits(1 << gap, gap + 1);
  }
  return position();
}

export function decodeBitmap(gaps: usize, count: u32, span: u32, from: f64): f64 {
  startAt(from);
  let found: u32 = 0;
  let gap: u32 = 0;
  for (let left = span; left > 0; ) {
    const width = min<u32>(32, left);
    let bits = takeBits(width);
    let start: u32 = 0;
    while (bits != 0) {
      if (found == count) return -1;
      const zeros = ctz(bits);
      store<u32>(gaps + (<usize>found << 2), gap + zeros);
      found++;
      gap = 0;
      start += zeros + 1;
      // In two shifts, because a shift by 32 would be a shift by 0.
      bits = (bits >> zeros) >> 1;
    }
    gap += width - start;
    left -= width;
  }
  return found == count ? position() : -1;
}

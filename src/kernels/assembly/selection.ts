import { largestLane } from './lanes';
import { appendPacked, MAGNITUDE, magnitudes, packed, writePackTable } from './pack';

/** HISTOGRAM_BYTES of ../kernels.ts has room for the buckets of this many bits. */
const BUCKET_BITS: i32 = 11;

export function magnitudeOfRank(
  values: usize,
  elementCount: u32,
  rank: u32,
  lowest: u32,
  highest: u32,
  histogram: usize,
): u32 {
  let base = lowest;
  let span = highest - lowest;
  let remaining = rank;
  // Each pass splits the bucket that the pass before has found, by the next eleven bits.
  while (true) {
    const shift = <u32>max<i32>(0, 32 - BUCKET_BITS - <i32>clz(span));
    const bucketCount = (span >> shift) + 1;
    memory.fill(histogram, 0, <usize>bucketCount << 2);
    const bases = i32x4.splat(base);
    const spans = i32x4.splat(span);
    let i: u32 = 0;
    while (i < elementCount) {
      const at = values + (<usize>i << 2);
      if (i + 4 <= elementCount) {
        const offsets = i32x4.sub(magnitudes(v128.load(at)), bases);
        if (!v128.any_true(i32x4.le_u(offsets, spans))) {
          i += 4;
          continue;
        }
      }
      const end = min<u32>(elementCount, i + 4);
      for (; i < end; i++) {
        const offset = (load<u32>(values + (<usize>i << 2)) & MAGNITUDE) - base;
        if (offset <= span) {
          const bucket = histogram + (<usize>(offset >> shift) << 2);
          store<u32>(bucket, load<u32>(bucket) + 1);
        }
      }
    }
    let bucket = bucketCount - 1;
    for (; bucket > 0; bucket--) {
      const count = load<u32>(histogram + (<usize>bucket << 2));
      if (count >= remaining) break;
      remaining -= count;
    }
    base += bucket << shift;
    if (shift == 0) return base;
    // The topmost bucket may reach beyond the span. What lies there was not counted, and must not be counted now.
    span = min<u32>((<u32>1 << shift) - 1, highest - base);
  }
}

export function countAbove(values: usize, elementCount: u32, magnitude: u32): f64 {
  const limit = i32x4.splat(magnitude);
  let lanes = i32x4.splat(0);
  let i: u32 = 0;
  for (; i + 4 <= elementCount; i += 4) {
    lanes = i32x4.sub(lanes, i32x4.gt_s(magnitudes(v128.load(values + (<usize>i << 2))), limit));
  }
  let count =
    i32x4.extract_lane(lanes, 0) +
    i32x4.extract_lane(lanes, 1) +
    i32x4.extract_lane(lanes, 2) +
    i32x4.extract_lane(lanes, 3);
  for (; i < elementCount; i++) {
    if ((load<u32>(values + (<usize>i << 2)) & MAGNITUDE) > magnitude) count++;
  }
  return count;
}

@inline
function copyFour(from: usize, beyond: v128, into: usize, found: u32, capacity: u32, table: usize): u32 {
  const lanes = v128.load(from);
  const mask: u32 = i32x4.bitmask(i32x4.le_s(magnitudes(lanes), beyond));
  if (found < capacity) v128.store(into + (<usize>found << 2), packed(lanes, mask, table));
  return found + popcnt(mask);
}

export function copyUpTo(
  values: usize,
  elementCount: u32,
  highest: u32,
  into: usize,
  capacity: u32,
  table: usize,
): f64 {
  writePackTable(table);
  const beyond = i32x4.splat(highest);
  // From four places at a time, because a core reads more streams faster.
  const quarter = <usize>(elementCount >> 4) << 4;
  let found: u32 = 0;
  for (let at = values; at < values + quarter; at += 16) {
    found = copyFour(at, beyond, into, found, capacity, table);
    found = copyFour(at + quarter, beyond, into, found, capacity, table);
    found = copyFour(at + 2 * quarter, beyond, into, found, capacity, table);
    found = copyFour(at + 3 * quarter, beyond, into, found, capacity, table);
  }
  for (let at = values + 4 * quarter; at < values + (<usize>elementCount << 2); at += 4) {
    const bits = load<u32>(at);
    if ((bits & MAGNITUDE) > highest) continue;
    if (found < capacity) store<u32>(into + (<usize>found << 2), bits);
    found++;
  }
  return found;
}

/** How many entries of the last {@link takeLargest} of this instance were exactly at its threshold. */
export let tiesTaken: u32 = 0;

/** The largest magnitude of these entries, or 0. */
export let largestTaken: u32 = 0;

/** The indices of four elements. If they are not listed, the index of an element is its position. */
@inline
function orderOf(listed: bool, fromIndices: usize, i: u32): v128 {
  return listed ? v128.load(fromIndices + (<usize>i << 2)) : i32x4.add(i32x4.splat(i), i32x4(0, 1, 2, 3));
}

/** `listed`: the indices of the elements are in `fromIndices`. Otherwise the index of an element is its position. */
@inline
function takeLoop(
  listed: bool,
  fromIndices: usize,
  fromValues: usize,
  elementCount: u32,
  threshold: u32,
  ties: u32,
  indices: usize,
  values: usize,
  count: u32,
  table: usize,
): u32 {
  const tied = i32x4.splat(threshold);
  let tiesLeft = ties;
  let below: i32 = threshold - (tiesLeft > 0 ? 1 : 0);
  let taken: u32 = 0;
  // If an element of some lanes is taken, the others are smaller, so all lanes may be counted.
  let largest = i32x4.splat(0);
  let i: u32 = 0;
  while (i < elementCount && taken < count) {
    const at = <usize>i << 2;
    const to = <usize>taken << 2;
    // Usually sixteen elements have no tie. Then no branch is needed for each four of them, which at high densities
    // could not be predicted.
    if (i + 16 <= elementCount && taken + 16 <= count) {
      const l0 = v128.load(fromValues + at);
      const l1 = v128.load(fromValues + at, 16);
      const l2 = v128.load(fromValues + at, 32);
      const l3 = v128.load(fromValues + at, 48);
      const m0 = magnitudes(l0);
      const m1 = magnitudes(l1);
      const m2 = magnitudes(l2);
      const m3 = magnitudes(l3);
      const tiedHere = v128.or(
        v128.or(i32x4.eq(m0, tied), i32x4.eq(m1, tied)),
        v128.or(i32x4.eq(m2, tied), i32x4.eq(m3, tied)),
      );
      if (!v128.any_true(tiedHere)) {
        const g0 = i32x4.gt_s(m0, tied);
        const g1 = i32x4.gt_s(m1, tied);
        const g2 = i32x4.gt_s(m2, tied);
        const g3 = i32x4.gt_s(m3, tied);
        if (v128.any_true(v128.or(v128.or(g0, g1), v128.or(g2, g3)))) {
          largest = i32x4.max_u(largest, i32x4.max_u(i32x4.max_u(m0, m1), i32x4.max_u(m2, m3)));
          taken = appendPacked(l0, orderOf(listed, fromIndices, i), g0, taken, indices, values, table);
          taken = appendPacked(l1, orderOf(listed, fromIndices, i + 4), g1, taken, indices, values, table);
          taken = appendPacked(l2, orderOf(listed, fromIndices, i + 8), g2, taken, indices, values, table);
          taken = appendPacked(l3, orderOf(listed, fromIndices, i + 12), g3, taken, indices, values, table);
        }
        i += 16;
        continue;
      }
    }
    if (i + 4 <= elementCount) {
      const lanes = v128.load(fromValues + at);
      const magnitude = magnitudes(lanes);
      const above = i32x4.gt_s(magnitude, i32x4.splat(below));
      if (!v128.any_true(above)) {
        i += 4;
        continue;
      }
      const tiesHere: u32 = popcnt(i32x4.bitmask(v128.and(above, i32x4.eq(magnitude, tied))));
      // A packed store writes four entries. It must not write past the end, nor take more ties than are left.
      if (tiesHere <= tiesLeft && taken + 4 <= count) {
        largest = i32x4.max_u(largest, magnitude);
        taken = appendPacked(lanes, orderOf(listed, fromIndices, i), above, taken, indices, values, table);
        tiesLeft -= tiesHere;
        if (tiesLeft == 0) below = threshold;
        i += 4;
        continue;
      }
    }
    const bits = load<u32>(fromValues + at);
    const magnitude = bits & MAGNITUDE;
    if (<i32>magnitude > below) {
      largest = i32x4.max_u(largest, i32x4.splat(magnitude));
      store<u32>(values + to, bits);
      store<u32>(indices + to, listed ? load<u32>(fromIndices + at) : i);
      taken++;
      if (magnitude == threshold && --tiesLeft == 0) below = threshold;
    }
    i++;
  }
  tiesTaken = ties - tiesLeft;
  largestTaken = largestLane(largest);
  return taken;
}

export function takeLargest(
  listed: bool,
  indices: usize,
  values: usize,
  elementCount: u32,
  threshold: u32,
  ties: u32,
  intoIndices: usize,
  intoValues: usize,
  count: u32,
  table: usize,
): u32 {
  writePackTable(table);
  // `listed` is a literal at both calls, so the loop is compiled twice, without a branch inside.
  return listed
    ? takeLoop(true, indices, values, elementCount, threshold, ties, intoIndices, intoValues, count, table)
    : takeLoop(false, 0, values, elementCount, threshold, ties, intoIndices, intoValues, count, table);
}

import { MAGNITUDE, magnitudes, storePacked, writePackTable } from './pack';

export function magnitudeOfRank(values: usize, elementCount: u32, rank: u32, histogram: usize): u32 {
  let found: u32 = 0;
  let remaining = rank;
  // 31 bits from the top: eleven, ten and ten. Each pass counts only what shares the digits found so far.
  for (let shift: i32 = 20; shift >= 0; shift -= 10) {
    const buckets: u32 = shift == 20 ? 2048 : 1024;
    const digitMask = buckets - 1;
    const settled = shift == 20 ? 0 : ~0 << (shift + 10);
    memory.fill(histogram, 0, <usize>buckets << 2);
    const wanted = i32x4.splat(found);
    const settledLanes = v128.and(i32x4.splat(settled), i32x4.splat(MAGNITUDE));
    let i: u32 = 0;
    while (i < elementCount) {
      const at = values + (<usize>i << 2);
      if (i + 4 <= elementCount) {
        if (shift != 20 && !v128.any_true(i32x4.eq(v128.and(v128.load(at), settledLanes), wanted))) {
          i += 4;
          continue;
        }
      }
      const end = min<u32>(elementCount, i + 4);
      for (; i < end; i++) {
        const magnitude = load<u32>(values + (<usize>i << 2)) & MAGNITUDE;
        if ((magnitude & settled) == found) {
          const bucket = histogram + (<usize>((magnitude >> shift) & digitMask) << 2);
          store<u32>(bucket, load<u32>(bucket) + 1);
        }
      }
    }
    let digit = digitMask;
    for (; digit > 0; digit--) {
      const count = load<u32>(histogram + (<usize>digit << 2));
      if (count >= remaining) break;
      remaining -= count;
    }
    found |= digit << shift;
  }
  return found;
}

export function countAbove(values: usize, elementCount: u32, magnitude: u32): u32 {
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

/** Appends the lanes set in the mask, with their indices; returns how many entries there are now. */
@inline
function takeFour(
  listed: bool,
  lanes: v128,
  mask: u32,
  position: u32,
  fromIndices: usize,
  taken: u32,
  indices: usize,
  values: usize,
  table: usize,
): u32 {
  const to = <usize>taken << 2;
  const order = listed ? v128.load(fromIndices) : i32x4.add(i32x4.splat(position), i32x4(0, 1, 2, 3));
  storePacked(values + to, lanes, mask, table);
  storePacked(indices + to, order, mask, table);
  return taken + popcnt(mask);
}

/** `listed`: the elements' indices stand in `fromIndices`; otherwise an element's index is its position. */
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
  let i: u32 = 0;
  while (i < elementCount && taken < count) {
    const at = <usize>i << 2;
    const to = <usize>taken << 2;
    // Sixteen without a tie, the usual case, need no branch for each four, which at high densities nobody can predict.
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
          const list = listed ? fromIndices + at : 0;
          taken = takeFour(listed, l0, i32x4.bitmask(g0), i, list, taken, indices, values, table);
          taken = takeFour(listed, l1, i32x4.bitmask(g1), i + 4, list + 16, taken, indices, values, table);
          taken = takeFour(listed, l2, i32x4.bitmask(g2), i + 8, list + 32, taken, indices, values, table);
          taken = takeFour(listed, l3, i32x4.bitmask(g3), i + 12, list + 48, taken, indices, values, table);
        }
        i += 16;
        continue;
      }
    }
    if (i + 4 <= elementCount) {
      const lanes = v128.load(fromValues + at);
      const magnitude = magnitudes(lanes);
      const mask: u32 = i32x4.bitmask(i32x4.gt_s(magnitude, i32x4.splat(below)));
      if (mask == 0) {
        i += 4;
        continue;
      }
      const tiesHere: u32 = popcnt(mask & i32x4.bitmask(i32x4.eq(magnitude, tied)));
      // A packed store writes four entries: not over the end, and not where some of the ties must stay behind.
      if (tiesHere <= tiesLeft && taken + 4 <= count) {
        taken = takeFour(listed, lanes, mask, i, listed ? fromIndices + at : 0, taken, indices, values, table);
        tiesLeft -= tiesHere;
        if (tiesLeft == 0) below = threshold;
        i += 4;
        continue;
      }
    }
    const bits = load<u32>(fromValues + at);
    const magnitude = bits & MAGNITUDE;
    if (<i32>magnitude > below) {
      store<u32>(values + to, bits);
      store<u32>(indices + to, listed ? load<u32>(fromIndices + at) : i);
      taken++;
      if (magnitude == threshold && --tiesLeft == 0) below = threshold;
    }
    i++;
  }
  return taken;
}

export function takeLargest(
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
  return takeLoop(false, 0, values, elementCount, threshold, ties, intoIndices, intoValues, count, table);
}

export function takeLargestListed(
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
  return takeLoop(true, indices, values, elementCount, threshold, ties, intoIndices, intoValues, count, table);
}

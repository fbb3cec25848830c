/**
 * Loops that only read take four pages at a time, if there are so many: a core reads memory faster if it prefetches
 * more streams, and a hardware prefetcher stops at the end of its page.
 */
export const PAGE: usize = 4096;
export const PAGES: usize = 4 * PAGE;

/** Loads four elements. If fewer are left, zeros follow them. */
@inline
export function loadLanes(from: usize, left: u32): v128 {
  if (left >= 4) return v128.load(from);
  let lanes = v128.load32_zero(from);
  if (left > 1) lanes = v128.load_lane<u32>(from, lanes, 1, 4);
  if (left > 2) lanes = v128.load_lane<u32>(from, lanes, 2, 8);
  return lanes;
}

/** Stores the first `left` elements, at most four. */
@inline
export function storeLanes(to: usize, lanes: v128, left: u32): void {
  if (left >= 4) {
    v128.store(to, lanes);
    return;
  }
  v128.store_lane<u32>(to, lanes, 0);
  if (left > 1) v128.store_lane<u32>(to, lanes, 1, 4);
  if (left > 2) v128.store_lane<u32>(to, lanes, 2, 8);
}

/** The largest of four unsigned lanes. */
@inline
export function largestLane(lanes: v128): u32 {
  return max<u32>(
    max<u32>(i32x4.extract_lane(lanes, 0), i32x4.extract_lane(lanes, 1)),
    max<u32>(i32x4.extract_lane(lanes, 2), i32x4.extract_lane(lanes, 3)),
  );
}

/** The bits of a float32 that make its magnitude: all but the sign. Magnitudes order like absolute values. */
export const MAGNITUDE: u32 = 0x7fffffff;

@inline
export function magnitudes(lanes: v128): v128 {
  return v128.and(lanes, i32x4.splat(MAGNITUDE));
}

/**
 * Writes, for each mask of 4 bits, the byte shuffle that moves the lanes in the mask to the front, in order: 256 bytes.
 * Each call that uses the table writes it again, because the memory belongs to the caller and the module owns no data.
 */
export function writePackTable(table: usize): void {
  for (let mask: u32 = 0; mask < 16; mask++) {
    let to = table + (<usize>mask << 4);
    v128.store(to, i32x4.splat(0));
    for (let lane: u32 = 0; lane < 4; lane++) {
      if ((mask >> lane) & 1) {
        store<u32>(to, 0x03020100 + lane * 0x04040404);
        to += 4;
      }
    }
  }
}

/** Moves the lanes in the mask to the front, in order. */
@inline
export function packed(lanes: v128, mask: u32, table: usize): v128 {
  return v128.swizzle(lanes, v128.load(table + (<usize>mask << 4)));
}

/**
 * Appends the lanes for which `selected` is true, and their indices, to a list of `held` entries. Returns its new
 * length. It always writes four entries.
 */
@inline
export function appendPacked(
  lanes: v128,
  order: v128,
  selected: v128,
  held: u32,
  indices: usize,
  values: usize,
  table: usize,
): u32 {
  const to = <usize>held << 2;
  const mask: u32 = i32x4.bitmask(selected);
  v128.store(values + to, packed(lanes, mask, table));
  v128.store(indices + to, packed(order, mask, table));
  return held + popcnt(mask);
}

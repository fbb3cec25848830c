// Products of a matrix with a few vectors. The rows of the matrix, and the vectors, follow each other without a gap.
// Lengths are multiples of four. All sums have one order, so all machines have the same bits.

/** The sums of the lanes of four vectors. */
@inline
function sumsOf(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(v128.shuffle<f32>(a, b, 0, 1, 4, 5), v128.shuffle<f32>(a, b, 2, 3, 6, 7));
  const cd = f32x4.add(v128.shuffle<f32>(c, d, 0, 1, 4, 5), v128.shuffle<f32>(c, d, 2, 3, 6, 7));
  return f32x4.add(v128.shuffle<f32>(ab, cd, 0, 2, 4, 6), v128.shuffle<f32>(ab, cd, 1, 3, 5, 7));
}

@inline
function plusProduct(sum: v128, a: v128, b: v128): v128 {
  return f32x4.add(sum, f32x4.mul(a, b));
}

/** So many columns of all vectors are read for each four rows. They stay in the cache of a core. */
const BLOCK_COLUMNS: usize = 256;

@inline
function addTo(to: usize, sums: v128): void {
  v128.store(to, f32x4.add(v128.load(to), sums));
}

/** Four rows with two vectors at a time: eight sums stay in registers. */
export function rowProducts(matrix: usize, rows: u32, columns: u32, vectors: usize, count: u32, into: usize): void {
  const bytes = <usize>columns << 2;
  const intoBytes = <usize>rows << 2;
  memory.fill(into, 0, intoBytes * count);
  for (let start: usize = 0; start < bytes; start += BLOCK_COLUMNS << 2) {
    const end = min<usize>(bytes, start + (BLOCK_COLUMNS << 2));
    for (let i: usize = 0; i < <usize>rows; i += 4) {
      const first = matrix + i * bytes;
      const second = first + bytes;
      const third = second + bytes;
      const fourth = third + bytes;
      let vector = vectors;
      let to = into + (i << 2);
      let j: u32 = 0;
      for (; j + 2 <= count; j += 2, vector += 2 * bytes, to += 2 * intoBytes) {
        let a = f32x4.splat(0);
        let b = f32x4.splat(0);
        let c = f32x4.splat(0);
        let d = f32x4.splat(0);
        let e = f32x4.splat(0);
        let f = f32x4.splat(0);
        let g = f32x4.splat(0);
        let h = f32x4.splat(0);
        for (let k = start; k < end; k += 16) {
          const one = v128.load(vector + k);
          const other = v128.load(vector + bytes + k);
          let lanes = v128.load(first + k);
          a = plusProduct(a, lanes, one);
          e = plusProduct(e, lanes, other);
          lanes = v128.load(second + k);
          b = plusProduct(b, lanes, one);
          f = plusProduct(f, lanes, other);
          lanes = v128.load(third + k);
          c = plusProduct(c, lanes, one);
          g = plusProduct(g, lanes, other);
          lanes = v128.load(fourth + k);
          d = plusProduct(d, lanes, one);
          h = plusProduct(h, lanes, other);
        }
        addTo(to, sumsOf(a, b, c, d));
        addTo(to + intoBytes, sumsOf(e, f, g, h));
      }
      if (j == count) continue;
      let a = f32x4.splat(0);
      let b = f32x4.splat(0);
      let c = f32x4.splat(0);
      let d = f32x4.splat(0);
      for (let k = start; k < end; k += 16) {
        const lanes = v128.load(vector + k);
        a = plusProduct(a, v128.load(first + k), lanes);
        b = plusProduct(b, v128.load(second + k), lanes);
        c = plusProduct(c, v128.load(third + k), lanes);
        d = plusProduct(d, v128.load(fourth + k), lanes);
      }
      addTo(to, sumsOf(a, b, c, d));
    }
  }
}

/** So many rows are read for all columns before the next ones. They stay in the cache of a core. */
const BLOCK_ROWS: u32 = 64;

export function columnProducts(matrix: usize, rows: u32, columns: u32, vectors: usize, count: u32, into: usize): void {
  const bytes = <usize>columns << 2;
  const vectorBytes = <usize>rows << 2;
  memory.fill(into, 0, bytes * count);
  for (let start: u32 = 0; start < rows; start += BLOCK_ROWS) {
    const end = min<u32>(rows, start + BLOCK_ROWS);
    for (let k: usize = 0; k < bytes; k += 32) {
      if (k + 32 > bytes) {
        for (let j: u32 = 0; j < count; j++) {
          const to = into + <usize>j * bytes + k;
          let sum = v128.load(to);
          for (let i = start; i < end; i++) {
            const factor = v128.load32_splat(vectors + <usize>j * vectorBytes + (<usize>i << 2));
            sum = plusProduct(sum, v128.load(matrix + <usize>i * bytes + k), factor);
          }
          v128.store(to, sum);
        }
        break;
      }
      let j: u32 = 0;
      for (; j + 4 <= count; j += 4) {
        const to = into + <usize>j * bytes + k;
        const factors = vectors + <usize>j * vectorBytes;
        let a = v128.load(to);
        let b = v128.load(to, 16);
        let c = v128.load(to + bytes);
        let d = v128.load(to + bytes, 16);
        let e = v128.load(to + 2 * bytes);
        let f = v128.load(to + 2 * bytes, 16);
        let g = v128.load(to + 3 * bytes);
        let h = v128.load(to + 3 * bytes, 16);
        for (let i = start; i < end; i++) {
          const from = matrix + <usize>i * bytes + k;
          const left = v128.load(from);
          const right = v128.load(from, 16);
          const at = factors + (<usize>i << 2);
          let factor = v128.load32_splat(at);
          a = plusProduct(a, left, factor);
          b = plusProduct(b, right, factor);
          factor = v128.load32_splat(at + vectorBytes);
          c = plusProduct(c, left, factor);
          d = plusProduct(d, right, factor);
          factor = v128.load32_splat(at + 2 * vectorBytes);
          e = plusProduct(e, left, factor);
          f = plusProduct(f, right, factor);
          factor = v128.load32_splat(at + 3 * vectorBytes);
          g = plusProduct(g, left, factor);
          h = plusProduct(h, right, factor);
        }
        v128.store(to, a);
        v128.store(to, b, 16);
        v128.store(to + bytes, c);
        v128.store(to + bytes, d, 16);
        v128.store(to + 2 * bytes, e);
        v128.store(to + 2 * bytes, f, 16);
        v128.store(to + 3 * bytes, g);
        v128.store(to + 3 * bytes, h, 16);
      }
      for (; j < count; j++) {
        const to = into + <usize>j * bytes + k;
        let a = v128.load(to);
        let b = v128.load(to, 16);
        for (let i = start; i < end; i++) {
          const from = matrix + <usize>i * bytes + k;
          const factor = v128.load32_splat(vectors + <usize>j * vectorBytes + (<usize>i << 2));
          a = plusProduct(a, v128.load(from), factor);
          b = plusProduct(b, v128.load(from, 16), factor);
        }
        v128.store(to, a);
        v128.store(to, b, 16);
      }
    }
  }
}

/** Adds the scaled sums of four products. */
@inline
function addScaled(to: usize, sums: v128, scale: v128): void {
  v128.store(to, plusProduct(v128.load(to), f32x4.convert_i32x4_s(sums), scale));
}

/** Four rows and eight columns at a time: eight sums stay in registers. Pairs of int16 are multiplied and added. */
export function addProducts(
  matrix: usize,
  rows: u32,
  columns: u32,
  left: usize,
  right: usize,
  pairs: u32,
  scale: f32,
): void {
  const bytes = <usize>columns << 2;
  const leftBytes = <usize>rows << 2;
  const factor = f32x4.splat(scale);
  for (let i: usize = 0; i < <usize>rows; i += 4) {
    const first = matrix + i * bytes;
    let k: usize = 0;
    for (; k + 32 <= bytes; k += 32) {
      let a = i32x4.splat(0);
      let b = i32x4.splat(0);
      let c = i32x4.splat(0);
      let d = i32x4.splat(0);
      let e = i32x4.splat(0);
      let f = i32x4.splat(0);
      let g = i32x4.splat(0);
      let h = i32x4.splat(0);
      let at = left + (i << 2);
      let from = right + k;
      for (let j: u32 = 0; j < pairs; j++, at += leftBytes, from += bytes) {
        const one = v128.load(from);
        const other = v128.load(from, 16);
        let row = v128.load32_splat(at);
        a = i32x4.add(a, i32x4.dot_i16x8_s(one, row));
        b = i32x4.add(b, i32x4.dot_i16x8_s(other, row));
        row = v128.load32_splat(at, 4);
        c = i32x4.add(c, i32x4.dot_i16x8_s(one, row));
        d = i32x4.add(d, i32x4.dot_i16x8_s(other, row));
        row = v128.load32_splat(at, 8);
        e = i32x4.add(e, i32x4.dot_i16x8_s(one, row));
        f = i32x4.add(f, i32x4.dot_i16x8_s(other, row));
        row = v128.load32_splat(at, 12);
        g = i32x4.add(g, i32x4.dot_i16x8_s(one, row));
        h = i32x4.add(h, i32x4.dot_i16x8_s(other, row));
      }
      const to = first + k;
      addScaled(to, a, factor);
      addScaled(to + 16, b, factor);
      addScaled(to + bytes, c, factor);
      addScaled(to + bytes + 16, d, factor);
      addScaled(to + 2 * bytes, e, factor);
      addScaled(to + 2 * bytes + 16, f, factor);
      addScaled(to + 3 * bytes, g, factor);
      addScaled(to + 3 * bytes + 16, h, factor);
    }
    if (k == bytes) continue;
    for (let row: usize = 0; row < 4; row++) {
      let sum = i32x4.splat(0);
      let at = left + ((i + row) << 2);
      let from = right + k;
      for (let j: u32 = 0; j < pairs; j++, at += leftBytes, from += bytes) {
        sum = i32x4.add(sum, i32x4.dot_i16x8_s(v128.load(from), v128.load32_splat(at)));
      }
      addScaled(first + row * bytes + k, sum, factor);
    }
  }
}

/** Adds each row to the vector `i mod count`, or subtracts it if bit i of `signs` is 1. */
export function sumRows(matrix: usize, rows: u32, columns: u32, signs: usize, count: u32, into: usize): void {
  const bytes = <usize>columns << 2;
  memory.fill(into, 0, bytes * count);
  let j: u32 = 0;
  for (let i: u32 = 0; i < rows; i++, matrix += bytes) {
    const sign = i32x4.splat((load<u8>(signs + (i >> 3)) >> (i & 7)) << 31);
    const to = into + <usize>j * bytes;
    for (let k: usize = 0; k < bytes; k += 16) {
      v128.store(to + k, f32x4.add(v128.load(to + k), v128.xor(v128.load(matrix + k), sign)));
    }
    if (++j == count) j = 0;
  }
}

@inline
function dot(a: usize, b: usize, bytes: usize): f32 {
  let even = f32x4.splat(0);
  let odd = f32x4.splat(0);
  let k: usize = 0;
  for (; k + 32 <= bytes; k += 32) {
    even = plusProduct(even, v128.load(a + k), v128.load(b + k));
    odd = plusProduct(odd, v128.load(a + k, 16), v128.load(b + k, 16));
  }
  if (k < bytes) even = plusProduct(even, v128.load(a + k), v128.load(b + k));
  const sums = f32x4.add(even, odd);
  const halves = f32x4.add(sums, v128.shuffle<f32>(sums, sums, 2, 3, 0, 1));
  return f32x4.extract_lane(halves, 0) + f32x4.extract_lane(halves, 1);
}

/** With less than this left of the square of its norm, a vector was a sum of those before, but for rounding. */
const SMALLEST_REST: f32 = 1e-8;

export function orthonormalize(vectors: usize, length: u32, count: u32, norms: usize): void {
  const bytes = <usize>length << 2;
  for (let j: u32 = 0; j < count; j++) {
    const own = vectors + <usize>j * bytes;
    const before = dot(own, own, bytes);
    // Once more, because the first time leaves a part that is large beside what is left of a short vector.
    for (let pass = 0; pass < 2; pass++) {
      for (let other = vectors; other < own; other += bytes) {
        const overlap = f32x4.splat(-dot(own, other, bytes));
        for (let k: usize = 0; k < bytes; k += 16) {
          v128.store(own + k, plusProduct(v128.load(own + k), v128.load(other + k), overlap));
        }
      }
    }
    const rest = dot(own, own, bytes);
    const isLeft = rest > SMALLEST_REST * before;
    const norm: f32 = isLeft ? sqrt<f32>(rest) : 0;
    store<f32>(norms + (<usize>j << 2), norm);
    const factor = f32x4.splat(isLeft ? 1 / norm : 0);
    for (let k: usize = 0; k < bytes; k += 16) v128.store(own + k, f32x4.mul(v128.load(own + k), factor));
  }
}

/** Returns the largest magnitude of the whole numbers. */
export function roundToSteps(values: usize, count: u32, step: f32, limit: f32): f32 {
  const steps = f32x4.splat(step);
  const most = f32x4.splat(limit);
  let largest = f32x4.splat(0);
  for (const end = values + (<usize>count << 2); values < end; values += 16) {
    const rounded = f32x4.nearest(f32x4.div(v128.load(values), steps));
    const within = f32x4.max(f32x4.neg(most), f32x4.min(most, rounded));
    largest = f32x4.max(largest, f32x4.abs(within));
    v128.store(values, within);
  }
  const halves = f32x4.max(largest, v128.shuffle<f32>(largest, largest, 2, 3, 0, 1));
  return max<f32>(f32x4.extract_lane(halves, 0), f32x4.extract_lane(halves, 1));
}

/** Returns the largest symbol. What is behind the symbols, up to a multiple of four, becomes zero. */
export function unfoldSymbols(symbols: usize, count: u32, factor: i32, into: usize, isSecond: bool): u32 {
  for (let i = count; (i & 3) != 0; i++) store<u32>(symbols + (<usize>i << 2), 0);
  const factors = i32x4.splat(factor);
  const lowHalf = i32x4.splat(0xffff);
  let largest = i32x4.splat(0);
  for (const end = symbols + (<usize>count << 2); symbols < end; symbols += 16, into += 16) {
    const lanes = v128.load(symbols);
    largest = i32x4.max_u(largest, lanes);
    const sign = i32x4.neg(v128.and(lanes, i32x4.splat(1)));
    const product = i32x4.mul(v128.xor(i32x4.shr_u(lanes, 1), sign), factors);
    if (isSecond) v128.store(into, v128.or(v128.load(into), i32x4.shl(product, 16)));
    else v128.store(into, v128.and(product, lowHalf));
  }
  const halves = i32x4.max_u(largest, v128.shuffle<i32>(largest, largest, 2, 3, 0, 1));
  return max<u32>(i32x4.extract_lane(halves, 0), i32x4.extract_lane(halves, 1));
}

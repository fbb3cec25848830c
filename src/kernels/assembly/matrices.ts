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

/** Four rows with two vectors at a time: eight sums stay in registers. */
export function rowProducts(matrix: usize, rows: u32, columns: u32, vectors: usize, count: u32, into: usize): void {
  const bytes = <usize>columns << 2;
  const intoBytes = <usize>rows << 2;
  let j: u32 = 0;
  for (; j + 2 <= count; j += 2, vectors += 2 * bytes, into += 2 * intoBytes) {
    for (let i: usize = 0; i < <usize>rows; i += 4) {
      const first = matrix + <usize>i * bytes;
      const second = first + bytes;
      const third = second + bytes;
      const fourth = third + bytes;
      let a = f32x4.splat(0);
      let b = f32x4.splat(0);
      let c = f32x4.splat(0);
      let d = f32x4.splat(0);
      let e = f32x4.splat(0);
      let f = f32x4.splat(0);
      let g = f32x4.splat(0);
      let h = f32x4.splat(0);
      for (let k: usize = 0; k < bytes; k += 16) {
        const one = v128.load(vectors + k);
        const other = v128.load(vectors + bytes + k);
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
      v128.store(into + (i << 2), sumsOf(a, b, c, d));
      v128.store(into + intoBytes + (i << 2), sumsOf(e, f, g, h));
    }
  }
  if (j == count) return;
  for (let i: usize = 0; i < <usize>rows; i += 4) {
    const first = matrix + <usize>i * bytes;
    let a = f32x4.splat(0);
    let b = f32x4.splat(0);
    let c = f32x4.splat(0);
    let d = f32x4.splat(0);
    for (let k: usize = 0; k < bytes; k += 16) {
      const one = v128.load(vectors + k);
      a = plusProduct(a, v128.load(first + k), one);
      b = plusProduct(b, v128.load(first + bytes + k), one);
      c = plusProduct(c, v128.load(first + 2 * bytes + k), one);
      d = plusProduct(d, v128.load(first + 3 * bytes + k), one);
    }
    v128.store(into + (i << 2), sumsOf(a, b, c, d));
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

export function addProducts(matrix: usize, rows: u32, columns: u32, left: usize, right: usize, count: u32): void {
  const bytes = <usize>columns << 2;
  const leftBytes = <usize>rows << 2;
  for (let i: usize = 0; i < <usize>rows; i += 4) {
    const first = matrix + <usize>i * bytes;
    for (let k: usize = 0; k < bytes; k += 32) {
      const isWide = k + 32 <= bytes;
      const to = first + k;
      let a = v128.load(to);
      let b = v128.load(to + bytes);
      let c = v128.load(to + 2 * bytes);
      let d = v128.load(to + 3 * bytes);
      let at = left + (i << 2);
      let from = right + k;
      if (isWide) {
        let e = v128.load(to, 16);
        let f = v128.load(to + bytes, 16);
        let g = v128.load(to + 2 * bytes, 16);
        let h = v128.load(to + 3 * bytes, 16);
        for (let j: u32 = 0; j < count; j++, at += leftBytes, from += bytes) {
          const one = v128.load(from);
          const other = v128.load(from, 16);
          let factor = v128.load32_splat(at);
          a = plusProduct(a, one, factor);
          e = plusProduct(e, other, factor);
          factor = v128.load32_splat(at, 4);
          b = plusProduct(b, one, factor);
          f = plusProduct(f, other, factor);
          factor = v128.load32_splat(at, 8);
          c = plusProduct(c, one, factor);
          g = plusProduct(g, other, factor);
          factor = v128.load32_splat(at, 12);
          d = plusProduct(d, one, factor);
          h = plusProduct(h, other, factor);
        }
        v128.store(to, e, 16);
        v128.store(to + bytes, f, 16);
        v128.store(to + 2 * bytes, g, 16);
        v128.store(to + 3 * bytes, h, 16);
      } else {
        for (let j: u32 = 0; j < count; j++, at += leftBytes, from += bytes) {
          const one = v128.load(from);
          a = plusProduct(a, one, v128.load32_splat(at));
          b = plusProduct(b, one, v128.load32_splat(at, 4));
          c = plusProduct(c, one, v128.load32_splat(at, 8));
          d = plusProduct(d, one, v128.load32_splat(at, 12));
        }
      }
      v128.store(to, a);
      v128.store(to + bytes, b);
      v128.store(to + 2 * bytes, c);
      v128.store(to + 3 * bytes, d);
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

import { loadLanes, storeLanes } from './lanes';
import { appendPacked, magnitudes, writePackTable } from './pack';

// `nesterov` is a literal at the calls of the inlined functions, so each is compiled twice, without a branch inside.

@inline
function nextMomentum(nesterov: bool, u: v128, g: v128, factor: v128): v128 {
  return nesterov ? f32x4.mul(factor, f32x4.add(u, g)) : f32x4.add(f32x4.mul(factor, u), g);
}

@inline
function nextResidual(nesterov: bool, v: v128, u: v128, g: v128): v128 {
  return nesterov ? f32x4.add(f32x4.add(v, u), g) : f32x4.add(v, u);
}

/** DGC's accumulation for four aligned elements, in place. Returns the new residual. */
@inline
function accumulateLanes(
  nesterov: bool,
  gradient: usize,
  momentum: usize,
  residual: usize,
  scale: v128,
  factor: v128,
): v128 {
  const g = f32x4.mul(v128.load(gradient), scale);
  const u = nextMomentum(nesterov, v128.load(momentum), g, factor);
  const v = nextResidual(nesterov, v128.load(residual), u, g);
  v128.store(momentum, u);
  v128.store(residual, v);
  return v;
}

/** Accumulates sixteen elements. Those above `low` are appended to a list of `held` entries. Returns its new length. */
@inline
function accumulateSixteen(
  nesterov: bool,
  gradient: usize,
  momentum: usize,
  residual: usize,
  i: u32,
  scale: v128,
  factor: v128,
  low: v128,
  held: u32,
  indices: usize,
  values: usize,
  table: usize,
): u32 {
  const at = <usize>i << 2;
  const g = gradient + at;
  const u = momentum + at;
  const v = residual + at;
  const v0 = accumulateLanes(nesterov, g, u, v, scale, factor);
  const v1 = accumulateLanes(nesterov, g + 16, u + 16, v + 16, scale, factor);
  const v2 = accumulateLanes(nesterov, g + 32, u + 32, v + 32, scale, factor);
  const v3 = accumulateLanes(nesterov, g + 48, u + 48, v + 48, scale, factor);
  const in0 = i32x4.gt_s(magnitudes(v0), low);
  const in1 = i32x4.gt_s(magnitudes(v1), low);
  const in2 = i32x4.gt_s(magnitudes(v2), low);
  const in3 = i32x4.gt_s(magnitudes(v3), low);
  // At the usual densities most iterations gather nothing. Then one branch is enough.
  if (v128.any_true(v128.or(v128.or(in0, in1), v128.or(in2, in3)))) {
    const order = i32x4.add(i32x4.splat(i), i32x4(0, 1, 2, 3));
    held = appendPacked(v0, order, in0, held, indices, values, table);
    held = appendPacked(v1, i32x4.add(order, i32x4.splat(4)), in1, held, indices, values, table);
    held = appendPacked(v2, i32x4.add(order, i32x4.splat(8)), in2, held, indices, values, table);
    held = appendPacked(v3, i32x4.add(order, i32x4.splat(12)), in3, held, indices, values, table);
  }
  return held;
}

/** Moves the entries `from` to `end` of a list behind its first `held` entries. Returns its new length. */
@inline
function moveEntries(held: u32, from: u32, end: u32, indices: usize, values: usize): u32 {
  const bytes = <usize>(end - from) << 2;
  const source = <usize>from << 2;
  const target = <usize>held << 2;
  // Four at a time, so elements behind the last entry may be moved, too.
  for (let at: usize = 0; at < bytes; at += 16) {
    v128.store(indices + target + at, v128.load(indices + source + at));
    v128.store(values + target + at, v128.load(values + source + at));
  }
  return held + (end - from);
}

/** GATHER_BLOCK of ../kernels.ts, and half of it: a page of 4 KiB of each tensor. */
const BLOCK: u32 = 2048;
const PAGE: u32 = 1024;

/** How many entries the last {@link accumulate} of this instance put in its first list. */
export let firstCount: u32 = 0;

@inline
function accumulateLoop(
  nesterov: bool,
  gradient: usize,
  momentum: usize,
  residual: usize,
  elementCount: u32,
  gradientScale: f32,
  momentumFactor: f32,
  lowest: u32,
  firstIndices: usize,
  firstValues: usize,
  firstCapacity: i32,
  secondIndices: usize,
  secondValues: usize,
  secondCapacity: i32,
  table: usize,
): u32 {
  const scale = f32x4.splat(gradientScale);
  const factor = f32x4.splat(momentumFactor);
  // Magnitudes have no sign bit, so signed comparisons, which the hardware supports, order them correctly.
  const low = i32x4.splat(lowest - 1);
  let indices = firstIndices;
  let values = firstValues;
  let capacity = firstCapacity;
  let inFirst = true;
  let held: u32 = 0;
  let earlier: u32 = 0;
  let i: u32 = 0;
  while (i < elementCount) {
    if (<i32>held > capacity) {
      if (inFirst) firstCount = held;
      inFirst = false;
      // If the second list is full, too, it is overwritten. The count tells the caller that its content is invalid.
      indices = secondIndices;
      values = secondValues;
      capacity = secondCapacity;
      earlier += held;
      held = 0;
    }
    if (i + BLOCK <= elementCount) {
      // Two pages at a time, because a core reads memory faster if it prefetches more streams: a hardware prefetcher
      // stops at the end of its page. The entries of the second page are first put behind room for all entries of the
      // first page, and then moved up.
      const page = i + PAGE;
      const pagedFrom = held + PAGE;
      let paged = pagedFrom;
      for (; i < page; i += 16) {
        held = accumulateSixteen(
          nesterov, gradient, momentum, residual, i, scale, factor, low, held, indices, values, table,
        );
        paged = accumulateSixteen(
          nesterov, gradient, momentum, residual, i + PAGE, scale, factor, low, paged, indices, values, table,
        );
      }
      held = moveEntries(held, pagedFrom, paged, indices, values);
      i += PAGE;
      continue;
    }
    for (; i + 16 <= elementCount; i += 16) {
      held = accumulateSixteen(
        nesterov, gradient, momentum, residual, i, scale, factor, low, held, indices, values, table,
      );
    }
    while (i < elementCount) {
      const at = <usize>i << 2;
      const count = min<u32>(4, elementCount - i);
      const g = f32x4.mul(loadLanes(gradient + at, count), scale);
      const oldMomentum = loadLanes(momentum + at, count);
      const oldResidual = loadLanes(residual + at, count);
      const u = nextMomentum(nesterov, oldMomentum, g, factor);
      const v = nextResidual(nesterov, oldResidual, u, g);
      storeLanes(momentum + at, u, count);
      storeLanes(residual + at, v, count);
      // The lanes behind the last element are zeros, which are never gathered.
      const order = i32x4.add(i32x4.splat(i), i32x4(0, 1, 2, 3));
      held = appendPacked(v, order, i32x4.gt_s(magnitudes(v), low), held, indices, values, table);
      i += count;
    }
  }
  if (inFirst) firstCount = held;
  return earlier + held;
}

export function accumulate(
  gradient: usize,
  momentum: usize,
  residual: usize,
  elementCount: u32,
  gradientScale: f32,
  momentumFactor: f32,
  nesterov: bool,
  lowest: u32,
  firstIndices: usize,
  firstValues: usize,
  firstCapacity: i32,
  secondIndices: usize,
  secondValues: usize,
  secondCapacity: i32,
  table: usize,
): u32 {
  writePackTable(table);
  if (nesterov) {
    return accumulateLoop(
      true, gradient, momentum, residual, elementCount, gradientScale, momentumFactor, lowest,
      firstIndices, firstValues, firstCapacity, secondIndices, secondValues, secondCapacity, table,
    );
  }
  return accumulateLoop(
    false, gradient, momentum, residual, elementCount, gradientScale, momentumFactor, lowest,
    firstIndices, firstValues, firstCapacity, secondIndices, secondValues, secondCapacity, table,
  );
}

/** One cache line. */
const SAMPLE_BLOCK: u32 = 16;

export function sampleAccumulation(
  gradient: usize,
  momentum: usize,
  residual: usize,
  elementCount: u32,
  gradientScale: f32,
  momentumFactor: f32,
  nesterov: bool,
  blockCount: u32,
  into: usize,
): void {
  const scale = f32x4.splat(gradientScale);
  const factor = f32x4.splat(momentumFactor);
  const stride = elementCount / SAMPLE_BLOCK / blockCount;
  let random: u32 = 0;
  for (let block: u32 = 0; block < blockCount; block++) {
    random = random * 1664525 + 1013904223;
    // A random place in each stride. In a tensor with 2ⁿ columns, a fixed place would always be in the same column.
    const jitter = <u32>((<u64>(random >> 16) * stride) >> 16);
    const start = <usize>(block * stride + jitter) << 6;
    for (let at = start; at < start + 64; at += 16) {
      const g = f32x4.mul(v128.load(gradient + at), scale);
      const oldMomentum = v128.load(momentum + at);
      const oldResidual = v128.load(residual + at);
      const u = nesterov ? nextMomentum(true, oldMomentum, g, factor) : nextMomentum(false, oldMomentum, g, factor);
      const v = nesterov ? nextResidual(true, oldResidual, u, g) : nextResidual(false, oldResidual, u, g);
      v128.store(into, v);
      into += 16;
    }
  }
}

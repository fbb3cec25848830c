import { magnitudes, storePacked, writePackTable } from './pack';

// `nesterov` is a literal at the calls of the inlined loops, so each is compiled twice, without a branch inside.

@inline
function nextMomentum(nesterov: bool, u: v128, g: v128, factor: v128): v128 {
  return nesterov ? f32x4.mul(factor, f32x4.add(u, g)) : f32x4.add(f32x4.mul(factor, u), g);
}

@inline
function nextResidual(nesterov: bool, v: v128, u: v128, g: v128): v128 {
  return nesterov ? f32x4.add(f32x4.add(v, u), g) : f32x4.add(v, u);
}

/** The last one to three elements, with zeros behind them. */
@inline
function loadTail(from: usize, count: u32): v128 {
  let lanes = v128.load32_zero(from);
  if (count > 1) lanes = v128.load_lane<u32>(from, lanes, 1, 4);
  if (count > 2) lanes = v128.load_lane<u32>(from, lanes, 2, 8);
  return lanes;
}

@inline
function storeTail(to: usize, lanes: v128, count: u32): void {
  v128.store_lane<u32>(to, lanes, 0);
  if (count > 1) v128.store_lane<u32>(to, lanes, 1, 4);
  if (count > 2) v128.store_lane<u32>(to, lanes, 2, 8);
}

/** One aligned step of four elements of DGC's accumulation, in place; returns the new residual. */
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

/** Appends the lanes set in the mask, with their indices, while there is room; counts them in any case. */
@inline
function gather(
  lanes: v128,
  mask: u32,
  firstIndex: u32,
  gathered: u32,
  indices: usize,
  values: usize,
  capacity: u32,
  table: usize,
): u32 {
  if (gathered < capacity) {
    const at = <usize>gathered << 2;
    storePacked(values + at, lanes, mask, table);
    storePacked(indices + at, i32x4.add(i32x4.splat(firstIndex), i32x4(0, 1, 2, 3)), mask, table);
  }
  return gathered + popcnt(mask);
}

/** How many magnitudes the last {@link accumulate} of this instance found above its band. */
export let aboveCount: u32 = 0;

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
  highest: u32,
  indices: usize,
  values: usize,
  capacity: u32,
  table: usize,
): u32 {
  const scale = f32x4.splat(gradientScale);
  const factor = f32x4.splat(momentumFactor);
  // Magnitudes have no sign bit, so signed comparisons, which the hardware has, order them rightly.
  const low = i32x4.splat(lowest - 1);
  const high = i32x4.splat(highest);
  let above = i32x4.splat(0);
  let gathered: u32 = 0;
  let i: u32 = 0;
  // Sixteen elements a turn: at the usual densities most turns gather nothing, and one branch tells so.
  for (; i + 16 <= elementCount; i += 16) {
    const at = <usize>i << 2;
    const g = gradient + at;
    const u = momentum + at;
    const v = residual + at;
    const v0 = accumulateLanes(nesterov, g, u, v, scale, factor);
    const v1 = accumulateLanes(nesterov, g + 16, u + 16, v + 16, scale, factor);
    const v2 = accumulateLanes(nesterov, g + 32, u + 32, v + 32, scale, factor);
    const v3 = accumulateLanes(nesterov, g + 48, u + 48, v + 48, scale, factor);
    const m0 = magnitudes(v0);
    const m1 = magnitudes(v1);
    const m2 = magnitudes(v2);
    const m3 = magnitudes(v3);
    const above0 = i32x4.gt_s(m0, high);
    const above1 = i32x4.gt_s(m1, high);
    const above2 = i32x4.gt_s(m2, high);
    const above3 = i32x4.gt_s(m3, high);
    // A true lane is −1, so the sum counts downwards.
    above = i32x4.add(above, i32x4.add(i32x4.add(above0, above1), i32x4.add(above2, above3)));
    const in0 = v128.andnot(i32x4.gt_s(m0, low), above0);
    const in1 = v128.andnot(i32x4.gt_s(m1, low), above1);
    const in2 = v128.andnot(i32x4.gt_s(m2, low), above2);
    const in3 = v128.andnot(i32x4.gt_s(m3, low), above3);
    if (v128.any_true(v128.or(v128.or(in0, in1), v128.or(in2, in3)))) {
      gathered = gather(v0, i32x4.bitmask(in0), i, gathered, indices, values, capacity, table);
      gathered = gather(v1, i32x4.bitmask(in1), i + 4, gathered, indices, values, capacity, table);
      gathered = gather(v2, i32x4.bitmask(in2), i + 8, gathered, indices, values, capacity, table);
      gathered = gather(v3, i32x4.bitmask(in3), i + 12, gathered, indices, values, capacity, table);
    }
  }
  while (i < elementCount) {
    const at = <usize>i << 2;
    const count = min<u32>(4, elementCount - i);
    const whole = count == 4;
    const g = f32x4.mul(whole ? v128.load(gradient + at) : loadTail(gradient + at, count), scale);
    const oldMomentum = whole ? v128.load(momentum + at) : loadTail(momentum + at, count);
    const oldResidual = whole ? v128.load(residual + at) : loadTail(residual + at, count);
    const u = nextMomentum(nesterov, oldMomentum, g, factor);
    const v = nextResidual(nesterov, oldResidual, u, g);
    if (whole) {
      v128.store(momentum + at, u);
      v128.store(residual + at, v);
    } else {
      storeTail(momentum + at, u, count);
      storeTail(residual + at, v, count);
    }
    // The lanes behind a tail are zeros, whose magnitude is below every band.
    const m = magnitudes(v);
    const aboveHigh = i32x4.gt_s(m, high);
    above = i32x4.add(above, aboveHigh);
    const mask = i32x4.bitmask(v128.andnot(i32x4.gt_s(m, low), aboveHigh));
    gathered = gather(v, mask, i, gathered, indices, values, capacity, table);
    i += count;
  }
  aboveCount = -(
    i32x4.extract_lane(above, 0) +
    i32x4.extract_lane(above, 1) +
    i32x4.extract_lane(above, 2) +
    i32x4.extract_lane(above, 3)
  );
  return gathered;
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
  highest: u32,
  indices: usize,
  values: usize,
  capacity: u32,
  table: usize,
): u32 {
  writePackTable(table);
  if (nesterov) {
    return accumulateLoop(
      true, gradient, momentum, residual, elementCount, gradientScale, momentumFactor,
      lowest, highest, indices, values, capacity, table,
    );
  }
  return accumulateLoop(
    false, gradient, momentum, residual, elementCount, gradientScale, momentumFactor,
    lowest, highest, indices, values, capacity, table,
  );
}

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
  const stride = (elementCount >> 2) / blockCount;
  let random: u32 = 0;
  for (let block: u32 = 0; block < blockCount; block++) {
    random = random * 1664525 + 1013904223;
    // Somewhere in its stride: a fixed place would, in a tensor of 2ⁿ columns, always be the same column.
    const jitter = <u32>((<u64>(random >> 16) * stride) >> 16);
    const at = <usize>(block * stride + jitter) << 4;
    const g = f32x4.mul(v128.load(gradient + at), scale);
    const oldMomentum = v128.load(momentum + at);
    const oldResidual = v128.load(residual + at);
    const u = nesterov ? nextMomentum(true, oldMomentum, g, factor) : nextMomentum(false, oldMomentum, g, factor);
    const v = nesterov ? nextResidual(true, oldResidual, u, g) : nextResidual(false, oldResidual, u, g);
    v128.store(into + (<usize>block << 4), v);
  }
}

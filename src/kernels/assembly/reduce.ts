import { halfOf, HalfFormat, widened } from './half';

const enum Operation {
  Sum,
  Product,
  Min,
  Max,
}

// The operation is a literal at each call below, so the inliner keeps only one of the branches.

@inline
function combineLanes<T>(operation: Operation, a: v128, b: v128): v128 {
  if (operation == Operation.Sum) return v128.add<T>(a, b);
  if (operation == Operation.Min) return v128.min<T>(a, b);
  return v128.max<T>(a, b);
}

@inline
function combine<T>(operation: Operation, a: T, b: T): T {
  if (operation == Operation.Sum) return <T>(a + b);
  if (operation == Operation.Product) return <T>(a * b);
  if (operation == Operation.Min) return min<T>(a, b);
  return max<T>(a, b);
}

/** Reduces the elements from byte `at` on, one by one. */
@inline
function reduceEach<T>(operation: Operation, into: usize, from: usize, at: usize, bytes: usize): void {
  for (; at < bytes; at += sizeof<T>()) {
    store<T>(into + at, combine<T>(operation, load<T>(into + at), load<T>(from + at)));
  }
}

@inline
function reduce<T>(operation: Operation, into: usize, from: usize, elementCount: u32): void {
  const bytes = <usize>elementCount * sizeof<T>();
  let at: usize = 0;
  for (; at < (bytes & ~15); at += 16) {
    v128.store(into + at, combineLanes<T>(operation, v128.load(into + at), v128.load(from + at)));
  }
  reduceEach<T>(operation, into, from, at, bytes);
}

@inline
function multiply<T>(into: usize, from: usize, elementCount: u32): void {
  const bytes = <usize>elementCount * sizeof<T>();
  let at: usize = 0;
  for (; at < (bytes & ~15); at += 16) {
    v128.store(into + at, v128.mul<T>(v128.load(into + at), v128.load(from + at)));
  }
  reduceEach<T>(Operation.Product, into, from, at, bytes);
}

/** For the types and operations that have no lanes. */
@inline
function reduceSingly<T>(operation: Operation, into: usize, from: usize, elementCount: u32): void {
  reduceEach<T>(operation, into, from, 0, <usize>elementCount * sizeof<T>());
}

@inline
function reduceHalves(format: HalfFormat, operation: Operation, into: usize, from: usize, elementCount: u32): void {
  for (let at: usize = 0; at < <usize>elementCount << 1; at += 2) {
    const a = widened(format, load<u16>(into + at));
    const b = widened(format, load<u16>(from + at));
    store<u16>(into + at, halfOf(format, combine<f32>(operation, a, b)));
  }
}

export function sumFloat32(into: usize, from: usize, elementCount: u32): void {
  reduce<f32>(Operation.Sum, into, from, elementCount);
}

export function minFloat32(into: usize, from: usize, elementCount: u32): void {
  reduce<f32>(Operation.Min, into, from, elementCount);
}

export function maxFloat32(into: usize, from: usize, elementCount: u32): void {
  reduce<f32>(Operation.Max, into, from, elementCount);
}

export function productFloat32(into: usize, from: usize, elementCount: u32): void {
  multiply<f32>(into, from, elementCount);
}

export function sumFloat64(into: usize, from: usize, elementCount: u32): void {
  reduce<f64>(Operation.Sum, into, from, elementCount);
}

export function minFloat64(into: usize, from: usize, elementCount: u32): void {
  reduce<f64>(Operation.Min, into, from, elementCount);
}

export function maxFloat64(into: usize, from: usize, elementCount: u32): void {
  reduce<f64>(Operation.Max, into, from, elementCount);
}

export function productFloat64(into: usize, from: usize, elementCount: u32): void {
  multiply<f64>(into, from, elementCount);
}

export function sumInt32(into: usize, from: usize, elementCount: u32): void {
  reduce<i32>(Operation.Sum, into, from, elementCount);
}

export function minInt32(into: usize, from: usize, elementCount: u32): void {
  reduce<i32>(Operation.Min, into, from, elementCount);
}

export function maxInt32(into: usize, from: usize, elementCount: u32): void {
  reduce<i32>(Operation.Max, into, from, elementCount);
}

export function productInt32(into: usize, from: usize, elementCount: u32): void {
  multiply<i32>(into, from, elementCount);
}

export function sumUint8(into: usize, from: usize, elementCount: u32): void {
  reduce<u8>(Operation.Sum, into, from, elementCount);
}

export function minUint8(into: usize, from: usize, elementCount: u32): void {
  reduce<u8>(Operation.Min, into, from, elementCount);
}

export function maxUint8(into: usize, from: usize, elementCount: u32): void {
  reduce<u8>(Operation.Max, into, from, elementCount);
}

export function productUint8(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<u8>(Operation.Product, into, from, elementCount);
}

export function sumInt64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<i64>(Operation.Sum, into, from, elementCount);
}

export function productInt64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<i64>(Operation.Product, into, from, elementCount);
}

export function minInt64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<i64>(Operation.Min, into, from, elementCount);
}

export function maxInt64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<i64>(Operation.Max, into, from, elementCount);
}

export function sumUint64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<u64>(Operation.Sum, into, from, elementCount);
}

export function productUint64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<u64>(Operation.Product, into, from, elementCount);
}

export function minUint64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<u64>(Operation.Min, into, from, elementCount);
}

export function maxUint64(into: usize, from: usize, elementCount: u32): void {
  reduceSingly<u64>(Operation.Max, into, from, elementCount);
}

export function sumFloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Float16, Operation.Sum, into, from, elementCount);
}

export function productFloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Float16, Operation.Product, into, from, elementCount);
}

export function minFloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Float16, Operation.Min, into, from, elementCount);
}

export function maxFloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Float16, Operation.Max, into, from, elementCount);
}

export function sumBfloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Bfloat16, Operation.Sum, into, from, elementCount);
}

export function productBfloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Bfloat16, Operation.Product, into, from, elementCount);
}

export function minBfloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Bfloat16, Operation.Min, into, from, elementCount);
}

export function maxBfloat16(into: usize, from: usize, elementCount: u32): void {
  reduceHalves(HalfFormat.Bfloat16, Operation.Max, into, from, elementCount);
}

/** This is faster than filling a view of shared memory in JavaScript. */
export function clear(data: usize, elementCount: u32): void {
  memory.fill(data, 0, <usize>elementCount << 2);
}

export function copy(from: usize, into: usize, elementCount: u32): void {
  memory.copy(into, from, <usize>elementCount << 2);
}

// A number minus itself is +0, or NaN if the number is not finite.

/** Scales a lane. Returns zeros if all products are finite. */
@inline
function scaleLane<T>(data: usize, factors: v128): v128 {
  const scaled = v128.mul<T>(v128.load(data), factors);
  v128.store(data, scaled);
  return v128.sub<T>(scaled, scaled);
}

@inline
function scale<T>(data: usize, factor: T, elementCount: u32): bool {
  const bytes = <usize>elementCount * sizeof<T>();
  const factors = v128.splat<T>(factor);
  let nonFinite = i32x4.splat(0);
  let at: usize = 0;
  for (; at < (bytes & ~63); at += 64) {
    const from = data + at;
    const ofTwo = v128.or(scaleLane<T>(from, factors), scaleLane<T>(from + 16, factors));
    const ofTwoMore = v128.or(scaleLane<T>(from + 32, factors), scaleLane<T>(from + 48, factors));
    nonFinite = v128.or(nonFinite, v128.or(ofTwo, ofTwoMore));
  }
  let isFinite = !v128.any_true(nonFinite);
  for (; at < bytes; at += sizeof<T>()) {
    const scaled: T = load<T>(data + at) * factor;
    store<T>(data + at, scaled);
    isFinite = isFinite && scaled - scaled == 0;
  }
  return isFinite;
}

export function scaleFloat32(data: usize, factor: f32, elementCount: u32): bool {
  return scale<f32>(data, factor, elementCount);
}

export function scaleFloat64(data: usize, factor: f64, elementCount: u32): bool {
  return scale<f64>(data, factor, elementCount);
}

@inline
function scaleHalves(format: HalfFormat, data: usize, factor: f32, elementCount: u32): bool {
  let isFinite = true;
  for (let at: usize = 0; at < <usize>elementCount << 1; at += 2) {
    const scaled = halfOf(format, widened(format, load<u16>(data + at)) * factor);
    store<u16>(data + at, scaled);
    const value = widened(format, scaled);
    isFinite = isFinite && value - value == 0;
  }
  return isFinite;
}

export function scaleFloat16(data: usize, factor: f32, elementCount: u32): bool {
  return scaleHalves(HalfFormat.Float16, data, factor, elementCount);
}

export function scaleBfloat16(data: usize, factor: f32, elementCount: u32): bool {
  return scaleHalves(HalfFormat.Bfloat16, data, factor, elementCount);
}

import { referenceCodecKernels } from './reference-codec-kernels';
import { GATHER_BLOCK, type Accumulation, type Kernels, type ReduceOperation } from '../../src/kernels/kernels';
import type { Pointer } from '../../src/kernels/pointer';

const MAGNITUDE_BITS = 0x7fffffff;
const EXPONENT_BITS = 0x7f800000;
const { fround } = Math;

/** For numbers. Storing the result rounds or wraps it to the array's type. */
const REDUCTIONS: Record<ReduceOperation, (a: number, b: number) => number> = {
  // Two float32 added or multiplied in float64 round to the right float32.
  sum: (a, b) => a + b,
  product: (a, b) => a * b,
  min: Math.min,
  max: Math.max,
};

/** For integers, of any length. */
const WHOLE: Record<ReduceOperation, (a: bigint, b: bigint) => bigint> = {
  sum: (a, b) => a + b,
  product: (a, b) => a * b,
  min: (a, b) => (a < b ? a : b),
  max: (a, b) => (a > b ? a : b),
};

/** Every value of a format of 16 bits that is not negative and not NaN, ascending: its index is its bits. */
const HALVES = {
  float16: Array.from({ length: 0x7c01 }, (_, bits) =>
    bits === 0x7c00
      ? Infinity
      : bits < 0x400
        ? bits * 2 ** -24
        : (1 + (bits & 0x3ff) / 1024) * 2 ** ((bits >> 10) - 15),
  ),
  bfloat16: Array.from(new Float32Array(Uint32Array.from({ length: 0x7f81 }, (_, bits) => bits << 16).buffer)),
};
const NANS = { float16: 0x7e00, bfloat16: 0x7fc0 };

/** The value of 16 bits, looked up. */
export function valueOfHalf(type: keyof typeof HALVES, bits: number): number {
  const value = HALVES[type][bits & 0x7fff] ?? NaN;
  return bits & 0x8000 ? -value : value;
}

/** The bits of the nearest value, found by halving the table. */
export function nearestHalf(type: keyof typeof HALVES, value: number): number {
  if (Number.isNaN(value)) return NANS[type];
  const table = HALVES[type];
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  let [low, high] = [0, table.length - 1]; // the first may be the value, and all behind the second are greater
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (table[middle]! <= magnitude) low = middle;
    else high = middle;
  }
  if (magnitude === Infinity) return sign | high;
  // Half way to the power of two that follows the largest value, it is infinite.
  const next = high === table.length - 1 ? 2 * table[high - 1]! - table[high - 2]! : table[high]!;
  const rest = magnitude - table[low]! - (next - magnitude);
  return sign | (rest > 0 || (rest === 0 && low % 2 === 1) ? high : low);
}

/**
 * The kernels in plain TypeScript over the same memory: the meaning of {@link Kernels}, for tests, and slow. The arrays
 * that it is given must lie in the memory as it is at the time of the call.
 */
export function referenceKernels(memory: WebAssembly.Memory): Kernels {
  // Made anew at each call, as the memory has a new, longer buffer once it grew.
  const float32 = (at: Pointer, count: number) => new Float32Array(memory.buffer, at, count);
  const uint32 = (at: Pointer, count: number) => new Uint32Array(memory.buffer, at, count);
  const typed = (type: 'float32' | 'float64' | 'uint8', at: Pointer, count: number) => {
    const Typed = { float32: Float32Array, float64: Float64Array, uint8: Uint8Array }[type];
    return new Typed(memory.buffer, at, count);
  };
  const halves = (at: Pointer, count: number) => new Uint16Array(memory.buffer, at, count);
  const wholes = (type: 'int32' | 'int64' | 'uint64', at: Pointer, count: number) => {
    const view = new DataView(memory.buffer, at);
    return Array.from({ length: count }, (_, i) => {
      if (type === 'int32') return BigInt(view.getInt32(4 * i, true));
      return type === 'int64' ? view.getBigInt64(8 * i, true) : view.getBigUint64(8 * i, true);
    });
  };
  const magnitudesOf = (values: Pointer, count: number) => uint32(values, count).map(bits => bits & MAGNITUDE_BITS);

  /** The new u and v of one element, each operation rounded to float32. */
  const accumulated = (step: Accumulation) => {
    const gradient = float32(step.gradient, step.elementCount);
    const momentum = float32(step.momentum, step.elementCount);
    const residual = float32(step.residual, step.elementCount);
    const scale = fround(step.gradientScale);
    const m = fround(step.momentumFactor);
    return (i: number) => {
      const g = fround(gradient[i]! * scale);
      if (step.nesterov) {
        const u = fround(m * fround(momentum[i]! + g));
        return { u, v: fround(fround(residual[i]! + u) + g) };
      }
      const u = fround(fround(m * momentum[i]!) + g);
      return { u, v: fround(residual[i]! + u) };
    };
  };

  return {
    ...referenceCodecKernels(memory),
    reduce(operation, type, into, from, elementCount) {
      if (type === 'int32' || type === 'int64' || type === 'uint64') {
        const view = new DataView(memory.buffer, into);
        const source = wholes(type, from, elementCount);
        wholes(type, into, elementCount).forEach((value, i) => {
          const result = WHOLE[operation](value, source[i]!);
          if (type === 'int32') view.setInt32(4 * i, Number(BigInt.asIntN(32, result)), true);
          else view.setBigUint64(8 * i, BigInt.asUintN(64, result), true);
        });
        return;
      }
      const combine = REDUCTIONS[operation];
      if (type === 'float16' || type === 'bfloat16') {
        const source = halves(from, elementCount);
        halves(into, elementCount).forEach((bits, i, target) => {
          const result = fround(combine(valueOfHalf(type, bits), valueOfHalf(type, source[i]!)));
          target[i] = nearestHalf(type, result);
        });
        return;
      }
      const target = typed(type, into, elementCount);
      const source = typed(type, from, elementCount);
      for (let i = 0; i < elementCount; i++) target[i] = combine(target[i]!, source[i]!);
    },

    clear(data, elementCount) {
      float32(data, elementCount).fill(0);
    },

    copy(from, into, elementCount) {
      uint32(into, elementCount).set(uint32(from, elementCount));
    },

    scale(type, data, factor, elementCount) {
      if (type === 'float16' || type === 'bfloat16') {
        const target = halves(data, elementCount);
        target.forEach((bits, i) => {
          target[i] = nearestHalf(type, fround(valueOfHalf(type, bits) * fround(factor)));
        });
        return target.every(bits => Number.isFinite(valueOfHalf(type, bits)));
      }
      const target = typed(type, data, elementCount);
      const rounded = type === 'float32' ? fround(factor) : factor;
      for (let i = 0; i < elementCount; i++) target[i]! *= rounded;
      return target.every(Number.isFinite);
    },

    sumOfSquares: (data, elementCount) => float32(data, elementCount).reduce((sum, x) => sum + x * x, 0),

    allFinite: (data, elementCount) =>
      uint32(data, elementCount).every(bits => (bits & EXPONENT_BITS) !== EXPONENT_BITS),

    applyMomentum(gradient, momentum, elementCount, factor, nesterov) {
      const g = float32(gradient, elementCount);
      const u = float32(momentum, elementCount);
      const m = fround(factor);
      for (let i = 0; i < elementCount; i++) {
        u[i] = nesterov ? m * fround(u[i]! + g[i]!) : fround(m * u[i]!) + g[i]!;
        g[i] = nesterov ? u[i]! + g[i]! : u[i]!;
      }
    },

    scatterAddBelow(into, indices, values, from, until, limit) {
      const [at, value] = [uint32(indices, until), float32(values, until)];
      let entry = from;
      for (; entry < until && at[entry]! < limit; entry++) float32(into, limit)[at[entry]!]! += value[entry]!;
      return entry;
    },

    scatterAdd(into, indices, values, count) {
      const targets = uint32(indices, count);
      const addends = float32(values, count);
      for (let j = 0; j < count; j++) float32(into + 4 * targets[j]!, 1)[0]! += addends[j]!;
    },

    addEntries(a, b, bStart, into) {
      const sums = new Map<number, number>();
      for (const [list, start] of [
        [a, 0],
        [b, bStart],
      ] as const) {
        const numbers = float32(list.values, list.count);
        uint32(list.indices, list.count).forEach((index, j) => {
          sums.set(index - start, (sums.get(index - start) ?? -0) + numbers[j]!);
        });
      }
      const ascending = [...sums.keys()].sort((x, y) => x - y);
      uint32(into.indices, sums.size).set(ascending);
      float32(into.values, sums.size).set(ascending.map(index => sums.get(index)!));
      return sums.size;
    },

    settle(momentum, residual, indices, values, count) {
      const sent = float32(values, count);
      uint32(indices, count).forEach((index, j) => {
        if (sent[j] !== 0) float32(momentum + 4 * index, 1)[0] = 0;
        float32(residual + 4 * index, 1)[0]! -= sent[j]!;
      });
    },

    settleApplied(momentum, residual, update, indices, values, count) {
      const sent = float32(values, count);
      uint32(indices, count).forEach((index, j) => {
        if (float32(update + 4 * index, 1)[0] !== 0) float32(momentum + 4 * index, 1)[0] = 0;
        float32(residual + 4 * index, 1)[0]! -= sent[j]!;
      });
    },

    accumulate(step, { lowest, first, second }) {
      const momentum = float32(step.momentum, step.elementCount);
      const residual = float32(step.residual, step.elementCount);
      const residualBits = uint32(step.residual, step.elementCount);
      const next = accumulated(step);
      const held = { inFirst: 0, inSecond: 0 };
      let place: keyof typeof held = 'inFirst';
      for (let i = 0; i < step.elementCount; i++) {
        if (i % GATHER_BLOCK === 0 && held.inFirst > first.capacity) place = 'inSecond';
        const { u, v } = next(i);
        momentum[i] = u;
        residual[i] = v;
        if ((residualBits[i]! & MAGNITUDE_BITS) < lowest) continue;
        const entry = held[place]++;
        const into = place === 'inFirst' ? first : second;
        if (place === 'inSecond' && entry >= second.capacity) continue;
        uint32(into.indices + 4 * entry, 1)[0] = i;
        float32(into.values + 4 * entry, 1)[0] = v;
      }
      return held;
    },

    sampleAccumulation(step, blockCount, into) {
      const sample = float32(into, 16 * blockCount);
      const next = accumulated(step);
      const stride = Math.floor(Math.floor(step.elementCount / 16) / blockCount);
      let random = 0;
      for (let block = 0; block < blockCount; block++) {
        random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
        const jitter = Math.floor(((random >>> 16) * stride) / 0x10000);
        const start = 16 * (block * stride + jitter);
        for (let i = 0; i < 16; i++) sample[16 * block + i] = next(start + i).v;
      }
    },

    magnitudeOfRank: (values, elementCount, rank, lowest, highest) =>
      magnitudesOf(values, elementCount)
        .filter(magnitude => lowest <= magnitude && magnitude <= highest)
        .sort()
        .at(-rank)!,

    countAbove: (values, elementCount, magnitude) =>
      magnitudesOf(values, elementCount).reduce((count, other) => count + (other > magnitude ? 1 : 0), 0),

    copyUpTo(values, elementCount, highest, into, capacity) {
      const bits = uint32(values, elementCount).filter(word => (word & MAGNITUDE_BITS) <= highest);
      uint32(into, capacity).set(bits.subarray(0, capacity));
      return bits.length;
    },

    takeLargest(values, indices, elementCount, { threshold, ties, count, into }) {
      // Copies, as they may be the place to write to.
      const source = float32(values, elementCount).slice();
      const sourceIndices = indices === undefined ? undefined : uint32(indices, elementCount).slice();
      const intoIndices = uint32(into.indices, count);
      const intoValues = float32(into.values, count);
      let tiesLeft = ties;
      let taken = 0;
      let largest = 0;
      magnitudesOf(values, elementCount).forEach((magnitude, i) => {
        const tied = magnitude === threshold && tiesLeft > 0;
        if (taken === count || !(magnitude > threshold || tied)) return;
        if (tied) tiesLeft--;
        intoIndices[taken] = sourceIndices?.[i] ?? i;
        intoValues[taken] = source[i]!;
        largest = Math.max(largest, magnitude);
        taken++;
      });
      return { entries: taken, ties: ties - tiesLeft, largest };
    },

    rowProducts({ data, rows, columns }, vectors, count, into) {
      const [matrix, from, to] = [float32(data, rows * columns), float32(vectors, count * columns), float32(into, count * rows)]; // prettier-ignore
      for (let j = 0; j < count; j++) {
        for (let i = 0; i < rows; i++) {
          let sum = 0;
          for (let k = 0; k < columns; k++) sum += matrix[i * columns + k]! * from[j * columns + k]!;
          to[j * rows + i] = sum;
        }
      }
    },

    columnProducts({ data, rows, columns }, vectors, count, into) {
      const [matrix, from, to] = [float32(data, rows * columns), float32(vectors, count * rows), float32(into, count * columns)]; // prettier-ignore
      for (let j = 0; j < count; j++) {
        for (let k = 0; k < columns; k++) {
          let sum = 0;
          for (let i = 0; i < rows; i++) sum += matrix[i * columns + k]! * from[j * rows + i]!;
          to[j * columns + k] = sum;
        }
      }
    },

    addProducts({ data, rows, columns }, left, right, pairs, scale) {
      const halves = (at: number, length: number) => new Int16Array(memory.buffer, at, 2 * pairs * length);
      const [matrix, lefts, rights] = [float32(data, rows * columns), halves(left, rows), halves(right, columns)];
      for (let i = 0; i < rows; i++) {
        for (let k = 0; k < columns; k++) {
          let sum = 0;
          for (let j = 0; j < 2 * pairs; j++) {
            const [pair, half] = [j >> 1, j & 1];
            sum += lefts[2 * (pair * rows + i) + half]! * rights[2 * (pair * columns + k) + half]!;
          }
          matrix[i * columns + k]! += Math.fround(Math.fround(sum) * Math.fround(scale));
        }
      }
    },

    roundToSteps(values, count, step, limit) {
      const numbers = float32(values, count);
      numbers.forEach((value, i) => {
        const exact = Math.fround(value / Math.fround(step));
        const down = Math.floor(exact);
        const isUp = exact - down > 0.5 || (exact - down === 0.5 && down % 2 !== 0);
        numbers[i] = Math.max(-limit, Math.min(limit, isUp ? down + 1 : down));
      });
      return numbers.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    },

    unfoldSymbols(symbols, count, factor, into, isSecond) {
      const numbers = uint32(symbols, count);
      const halves = new Int16Array(memory.buffer, into, 8 * Math.ceil(count / 4));
      for (let i = 0; i < 4 * Math.ceil(count / 4); i++) {
        const symbol = numbers[i] ?? 0;
        const number = symbol % 2 === 0 ? symbol / 2 : -(symbol + 1) / 2;
        if (!isSecond) halves[2 * i + 1] = 0;
        halves[2 * i + Number(isSecond)] = number * factor;
      }
      return Math.max(...numbers);
    },

    sumRows({ data, rows, columns }, signs, count, into) {
      const [matrix, bytes, to] = [float32(data, rows * columns), new Uint8Array(memory.buffer, signs, Math.ceil(rows / 8)), float32(into, count * columns)]; // prettier-ignore
      to.fill(0);
      for (let i = 0; i < rows; i++) {
        const sign = (bytes[i >> 3]! >> (i & 7)) & 1 ? -1 : 1;
        for (let k = 0; k < columns; k++) to[(i % count) * columns + k]! += sign * matrix[i * columns + k]!;
      }
    },

    orthonormalize(vectors, length, count, norms) {
      const all = Array.from({ length: count }, (_, j) => float32(vectors + 4 * j * length, length));
      const done: Float64Array[] = [];
      all.forEach((vector, j) => {
        const own = Float64Array.from(vector);
        const dot = (other: Float64Array) => own.reduce((sum, value, i) => sum + value * other[i]!, 0);
        const before = dot(own);
        for (const other of [...done, ...done]) {
          const overlap = dot(other);
          other.forEach((value, i) => (own[i]! -= overlap * value));
        }
        const norm = dot(own) > 1e-8 * before ? Math.sqrt(dot(own)) : 0;
        float32(norms, count)[j] = norm;
        own.forEach((value, i) => (own[i] = norm === 0 ? 0 : value / norm));
        vector.set(own);
        done.push(own);
      });
    },
  };
}

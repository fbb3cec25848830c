import type { Accumulation, ElementType, Kernels, Pointer, ReduceOperation } from './kernels';

const MAGNITUDE_BITS = 0x7fffffff;
const EXPONENT_BITS = 0x7f800000;
const { fround } = Math;

const REDUCTIONS: Record<ReduceOperation, (a: number, b: number) => number> = {
  // Storing the sum rounds or wraps it to the array's type. Two float32 added in float64 round to the right float32.
  sum: (a, b) => a + b,
  min: Math.min,
  max: Math.max,
};

/**
 * The kernels in plain TypeScript over the same memory: the meaning of {@link Kernels}, for tests, and slow. The arrays
 * that it is given must lie in the memory as it is at the time of the call.
 */
export function referenceKernels(memory: WebAssembly.Memory): Kernels {
  // Made anew at each call, as the memory has a new, longer buffer once it grew.
  const float32 = (at: Pointer, count: number) => new Float32Array(memory.buffer, at, count);
  const uint32 = (at: Pointer, count: number) => new Uint32Array(memory.buffer, at, count);
  const typed = (type: ElementType, at: Pointer, count: number) => {
    switch (type) {
      case 'float32':
        return float32(at, count);
      case 'float64':
        return new Float64Array(memory.buffer, at, count);
      case 'int32':
        return new Int32Array(memory.buffer, at, count);
      case 'uint8':
        return new Uint8Array(memory.buffer, at, count);
    }
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
    reduce(operation, type, into, from, elementCount) {
      const target = typed(type, into, elementCount);
      const source = typed(type, from, elementCount);
      const combine = REDUCTIONS[operation];
      for (let i = 0; i < elementCount; i++) target[i] = combine(target[i]!, source[i]!);
    },

    scale(type, data, factor, elementCount) {
      const target = typed(type, data, elementCount);
      const rounded = type === 'float32' ? fround(factor) : factor;
      for (let i = 0; i < elementCount; i++) target[i]! *= rounded;
    },

    sumOfSquares: (data, elementCount) => float32(data, elementCount).reduce((sum, x) => sum + x * x, 0),

    firstNonFinite: (data, elementCount) =>
      uint32(data, elementCount).findIndex(bits => (bits & EXPONENT_BITS) === EXPONENT_BITS),

    applyMomentum(gradient, momentum, elementCount, factor, nesterov) {
      const g = float32(gradient, elementCount);
      const u = float32(momentum, elementCount);
      const m = fround(factor);
      for (let i = 0; i < elementCount; i++) {
        u[i] = nesterov ? m * fround(u[i]! + g[i]!) : fround(m * u[i]!) + g[i]!;
        g[i] = nesterov ? u[i]! + g[i]! : u[i]!;
      }
    },

    scatterAdd(into, indices, values, count) {
      const targets = uint32(indices, count);
      const addends = float32(values, count);
      for (let j = 0; j < count; j++) float32(into + 4 * targets[j]!, 1)[0]! += addends[j]!;
    },

    clearAt(data, indices, count) {
      for (const index of uint32(indices, count)) float32(data + 4 * index, 1)[0] = 0;
    },

    accumulate(step, { lowest, highest, into, capacity }) {
      const momentum = float32(step.momentum, step.elementCount);
      const residual = float32(step.residual, step.elementCount);
      const residualBits = uint32(step.residual, step.elementCount);
      const indices = uint32(into.indices, capacity);
      const values = float32(into.values, capacity);
      const next = accumulated(step);
      let within = 0;
      let above = 0;
      for (let i = 0; i < step.elementCount; i++) {
        const { u, v } = next(i);
        momentum[i] = u;
        residual[i] = v;
        const magnitude = residualBits[i]! & MAGNITUDE_BITS;
        if (magnitude > highest) above++;
        else if (magnitude >= lowest) {
          if (within < capacity) {
            indices[within] = i;
            values[within] = v;
          }
          within++;
        }
      }
      return { within, above };
    },

    sampleAccumulation(step, blockCount, into) {
      const sample = float32(into, 4 * blockCount);
      const next = accumulated(step);
      const stride = Math.floor(Math.floor(step.elementCount / 4) / blockCount);
      let random = 0;
      for (let block = 0; block < blockCount; block++) {
        random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
        const jitter = Math.floor(((random >>> 16) * stride) / 0x10000);
        const start = 4 * (block * stride + jitter);
        for (let lane = 0; lane < 4; lane++) sample[4 * block + lane] = next(start + lane).v;
      }
    },

    magnitudeOfRank: (values, elementCount, rank) => magnitudesOf(values, elementCount).sort()[elementCount - rank]!,

    countAbove: (values, elementCount, magnitude) =>
      magnitudesOf(values, elementCount).reduce((count, other) => count + (other > magnitude ? 1 : 0), 0),

    takeLargest(values, indices, elementCount, { threshold, ties, count, into }) {
      const source = float32(values, elementCount);
      const sourceIndices = indices === undefined ? undefined : uint32(indices, elementCount);
      const intoIndices = uint32(into.indices, count);
      const intoValues = float32(into.values, count);
      let tiesLeft = ties;
      let taken = 0;
      magnitudesOf(values, elementCount).forEach((magnitude, i) => {
        const tied = magnitude === threshold && tiesLeft > 0;
        if (taken === count || !(magnitude > threshold || tied)) return;
        if (tied) tiesLeft--;
        intoIndices[taken] = sourceIndices?.[i] ?? i;
        intoValues[taken] = source[i]!;
        taken++;
      });
      return taken;
    },
  };
}

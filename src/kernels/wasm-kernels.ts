import { readFileSync } from 'node:fs';
import { ownFile } from '../own-file';
import type { KernelMemory } from '../kernel-memory';
import type { FloatType, Kernels, ReducedType, ReduceOperation } from './kernels';
import { type MatrixExports, type MatrixKernels, matrixKernels } from './matrix-kernels';
import { type CodecExports, type CodecKernels, codecKernels } from './codec-kernels';

type Reduce = (into: number, from: number, elementCount: number) => void;
type Scale = (data: number, factor: number, elementCount: number) => number;

/** `sumFloat32`, `sumFloat64`, and so on. */
type Reductions = { readonly [N in `${ReduceOperation}${Capitalize<ReducedType>}`]: Reduce };
type Scales = { readonly [N in `scale${Capitalize<FloatType>}`]: Scale };

/** The kernels whose exports have other names, arguments or results. */
type Adapted = 'accumulate' | 'addEntries' | 'allFinite' | 'reduce' | 'sampleAccumulation' | 'scale' | 'takeLargest';

/** The kernels that the module exports as they are, beside those of the codecs and of matrices. */
type Plain = Omit<Kernels, keyof CodecKernels | keyof MatrixKernels | Adapted>;

/** What assembly/index.ts exports. Results of type i32 are signed; a result that is a u32 needs `>>> 0`. */
interface Exports extends CodecExports, MatrixExports, Reductions, Scales, Plain {
  allFinite: (data: number, elementCount: number) => number;
  accumulate: (...numbers: (number | boolean)[]) => number;
  firstCount: { value: number };
  sampleAccumulation: (...numbers: (number | boolean)[]) => void;
  addEntries: (...numbers: number[]) => number;
  tiesTaken: { value: number };
  largestTaken: { value: number };
  takeLargest: (...numbers: (number | boolean)[]) => number;
}

let compiled: WebAssembly.Module | undefined;

/**
 * Makes the kernels, in WebAssembly SIMD.
 *
 * It is synchronous, because the thread that blocks in `Atomics.wait` cannot await. Each thread compiles the module
 * once. Any number of instances in any number of threads may share a memory: they keep nothing in it.
 *
 * @param memory Made with `shared: true` and `maximum: 65536`. The kernels also see it after it grows.
 */
export function instantiateKernels(memory: KernelMemory): Kernels {
  compiled ??= new WebAssembly.Module(readFileSync(ownFile('kernels/kernels.wasm')));
  const wasm = new WebAssembly.Instance(compiled, { env: { memory: memory as WebAssembly.Memory } })
    .exports as unknown as Exports;

  /** Looked up once: the name of an export is made of two words. */
  const reductionsOf = (operation: ReduceOperation): Record<ReducedType, Reduce> => ({
    float32: wasm[`${operation}Float32`],
    float64: wasm[`${operation}Float64`],
    float16: wasm[`${operation}Float16`],
    bfloat16: wasm[`${operation}Bfloat16`],
    int32: wasm[`${operation}Int32`],
    int64: wasm[`${operation}Int64`],
    uint64: wasm[`${operation}Uint64`],
    uint8: wasm[`${operation}Uint8`],
  });
  const reductions = {
    sum: reductionsOf('sum'),
    product: reductionsOf('product'),
    min: reductionsOf('min'),
    max: reductionsOf('max'),
  };
  const scales: Record<FloatType, Scale> = {
    float32: wasm.scaleFloat32,
    float64: wasm.scaleFloat64,
    float16: wasm.scaleFloat16,
    bfloat16: wasm.scaleBfloat16,
  };

  return {
    ...codecKernels(wasm),
    ...matrixKernels(wasm),
    reduce: (operation, type, into, from, elementCount) => reductions[operation][type](into, from, elementCount),
    scale: (type, data, factor, elementCount) => scales[type](data, factor, elementCount) !== 0,
    clear: wasm.clear,
    copy: wasm.copy,
    scatterAddBelow: wasm.scatterAddBelow,
    sumOfSquares: wasm.sumOfSquares,
    allFinite: (data, elementCount) => wasm.allFinite(data, elementCount) !== 0,
    applyMomentum: wasm.applyMomentum,
    scatterAdd: wasm.scatterAdd,
    addEntries: (a, b, bStart, into) =>
      wasm.addEntries(a.indices, a.values, a.count, b.indices, b.values, b.count, bStart, into.indices, into.values) >>>
      0,
    settle: wasm.settle,
    settleApplied: wasm.settleApplied,
    accumulate: (step, { lowest, first, second, packTable }) => {
      const gathered = wasm.accumulate(
        step.gradient,
        step.momentum,
        step.residual,
        step.elementCount,
        step.gradientScale,
        step.momentumFactor,
        step.nesterov,
        lowest,
        first.indices,
        first.values,
        first.capacity,
        second.indices,
        second.values,
        second.capacity,
        packTable,
      );
      const inFirst = wasm.firstCount.value >>> 0;
      return { inFirst, inSecond: (gathered >>> 0) - inFirst };
    },
    sampleAccumulation: (step, blockCount, into) =>
      wasm.sampleAccumulation(
        step.gradient,
        step.momentum,
        step.residual,
        step.elementCount,
        step.gradientScale,
        step.momentumFactor,
        step.nesterov,
        blockCount,
        into,
      ),
    magnitudeOfRank: wasm.magnitudeOfRank,
    countAbove: wasm.countAbove,
    copyUpTo: wasm.copyUpTo,
    takeLargest: (values, indices, elementCount, { threshold, ties, count, into, packTable }) => {
      const entries = wasm.takeLargest(
        indices !== undefined,
        indices ?? 0,
        values,
        elementCount,
        threshold,
        ties,
        into.indices,
        into.values,
        count,
        packTable,
      );
      return { entries: entries >>> 0, ties: wasm.tiesTaken.value >>> 0, largest: wasm.largestTaken.value };
    },
  };
}

import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ElementType, Kernels, ReduceOperation } from './kernels';
import { type CodecExports, codecKernels } from './wasm-codec-kernels';

type Reduce = (into: number, from: number, elementCount: number) => void;
type Scale = (data: number, factor: number, elementCount: number) => number;

/** What assembly/index.ts exports. Results of type i32 are signed; those that mean a u32 need `>>> 0`. */
interface Exports extends CodecExports {
  sumFloat32: Reduce;
  minFloat32: Reduce;
  maxFloat32: Reduce;
  sumFloat64: Reduce;
  minFloat64: Reduce;
  maxFloat64: Reduce;
  sumInt32: Reduce;
  minInt32: Reduce;
  maxInt32: Reduce;
  sumUint8: Reduce;
  minUint8: Reduce;
  maxUint8: Reduce;
  scaleFloat32: Scale;
  scaleFloat64: Scale;
  clear: (data: number, elementCount: number) => void;
  copy: (from: number, into: number, elementCount: number) => void;
  scatterAddBelow: (
    into: number,
    indices: number,
    values: number,
    from: number,
    until: number,
    limit: number,
  ) => number;
  sumOfSquares: (data: number, elementCount: number) => number;
  firstNonFinite: (data: number, elementCount: number) => number;
  applyMomentum: (gradient: number, momentum: number, elementCount: number, factor: number, nesterov: boolean) => void;
  scatterAdd: (into: number, indices: number, values: number, count: number) => void;
  settle: (momentum: number, residual: number, indices: number, values: number, count: number) => void;
  accumulate: (
    gradient: number,
    momentum: number,
    residual: number,
    elementCount: number,
    gradientScale: number,
    momentumFactor: number,
    nesterov: boolean,
    lowest: number,
    firstIndices: number,
    firstValues: number,
    firstCapacity: number,
    secondIndices: number,
    secondValues: number,
    secondCapacity: number,
    packTable: number,
  ) => number;
  firstCount: { value: number };
  sampleAccumulation: (
    gradient: number,
    momentum: number,
    residual: number,
    elementCount: number,
    gradientScale: number,
    momentumFactor: number,
    nesterov: boolean,
    blockCount: number,
    into: number,
  ) => void;
  magnitudeOfRank: (
    values: number,
    elementCount: number,
    rank: number,
    lowest: number,
    highest: number,
    histogram: number,
  ) => number;
  countAbove: (values: number, elementCount: number, magnitude: number) => number;
  copyUpTo: (
    values: number,
    elementCount: number,
    highest: number,
    into: number,
    capacity: number,
    packTable: number,
  ) => number;
  tiesTaken: { value: number };
  largestTaken: { value: number };
  takeLargest: (
    values: number,
    elementCount: number,
    threshold: number,
    ties: number,
    intoIndices: number,
    intoValues: number,
    count: number,
    packTable: number,
  ) => number;
  takeLargestListed: (
    indices: number,
    values: number,
    elementCount: number,
    threshold: number,
    ties: number,
    intoIndices: number,
    intoValues: number,
    count: number,
    packTable: number,
  ) => number;
}

let compiled: WebAssembly.Module | undefined;

/**
 * The kernels in WebAssembly SIMD, over `memory`: one made with `shared: true` and `maximum: 65536`, which they go on
 * seeing when it grows. Synchronous, since the thread that blocks in `Atomics.wait` cannot await; the module is
 * compiled once a thread. Any number of instances, in any number of threads, may share the memory: they keep nothing in
 * it.
 */
export function instantiateKernels(memory: WebAssembly.Memory): Kernels {
  compiled ??= new WebAssembly.Module(readFileSync(path.join(__dirname, 'kernels.wasm')));
  const wasm = new WebAssembly.Instance(compiled, { env: { memory } }).exports as unknown as Exports;

  const reductions: Record<ReduceOperation, Record<ElementType, Reduce>> = {
    sum: { float32: wasm.sumFloat32, float64: wasm.sumFloat64, int32: wasm.sumInt32, uint8: wasm.sumUint8 },
    min: { float32: wasm.minFloat32, float64: wasm.minFloat64, int32: wasm.minInt32, uint8: wasm.minUint8 },
    max: { float32: wasm.maxFloat32, float64: wasm.maxFloat64, int32: wasm.maxInt32, uint8: wasm.maxUint8 },
  };

  return {
    ...codecKernels(wasm),
    reduce: (operation, type, into, from, elementCount) => reductions[operation][type](into, from, elementCount),
    scale: (type, data, factor, elementCount) =>
      (type === 'float32' ? wasm.scaleFloat32 : wasm.scaleFloat64)(data, factor, elementCount) !== 0,
    clear: wasm.clear,
    copy: wasm.copy,
    scatterAddBelow: (into, indices, values, from, until, limit) =>
      wasm.scatterAddBelow(into, indices, values, from, until, limit) >>> 0,
    sumOfSquares: wasm.sumOfSquares,
    firstNonFinite: wasm.firstNonFinite,
    applyMomentum: wasm.applyMomentum,
    scatterAdd: wasm.scatterAdd,
    settle: wasm.settle,
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
    countAbove: (values, elementCount, magnitude) => wasm.countAbove(values, elementCount, magnitude) >>> 0,
    copyUpTo: (values, elementCount, highest, into, capacity, packTable) =>
      wasm.copyUpTo(values, elementCount, highest, into, capacity, packTable) >>> 0,
    takeLargest: (values, indices, elementCount, { threshold, ties, count, into, packTable }) => {
      const entries =
        indices === undefined
          ? wasm.takeLargest(values, elementCount, threshold, ties, into.indices, into.values, count, packTable)
          : wasm.takeLargestListed(
              indices,
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

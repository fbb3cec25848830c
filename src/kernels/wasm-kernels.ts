import { readFileSync } from 'node:fs';
import { ownFile } from '../own-file';
import type { KernelMemory } from '../kernel-memory';
import type { ElementType, Kernels, ReduceOperation } from './kernels';
import { type MatrixExports, matrixKernels } from './matrix-kernels';
import { type CodecExports, codecKernels } from './wasm-codec-kernels';

type Reduce = (into: number, from: number, elementCount: number) => void;
type Scale = (data: number, factor: number, elementCount: number) => number;

/** Kernels that the module exports as they are. */
type Plain =
  | 'applyMomentum'
  | 'clear'
  | 'copy'
  | 'copyUpTo'
  | 'countAbove'
  | 'firstNonFinite'
  | 'magnitudeOfRank'
  | 'scatterAdd'
  | 'scatterAddBelow'
  | 'settle'
  | 'sumOfSquares';

/** What assembly/index.ts exports. Results of type i32 are signed; a result that is a u32 needs `>>> 0`. */
interface Exports extends CodecExports, MatrixExports, Pick<Kernels, Plain> {
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
  tiesTaken: { value: number };
  largestTaken: { value: number };
  takeLargest: (
    listed: boolean,
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

  const reductions: Record<ReduceOperation, Record<ElementType, Reduce>> = {
    sum: { float32: wasm.sumFloat32, float64: wasm.sumFloat64, int32: wasm.sumInt32, uint8: wasm.sumUint8 },
    min: { float32: wasm.minFloat32, float64: wasm.minFloat64, int32: wasm.minInt32, uint8: wasm.minUint8 },
    max: { float32: wasm.maxFloat32, float64: wasm.maxFloat64, int32: wasm.maxInt32, uint8: wasm.maxUint8 },
  };

  return {
    ...codecKernels(wasm),
    ...matrixKernels(wasm),
    reduce: (operation, type, into, from, elementCount) => reductions[operation][type](into, from, elementCount),
    scale: (type, data, factor, elementCount) =>
      (type === 'float32' ? wasm.scaleFloat32 : wasm.scaleFloat64)(data, factor, elementCount) !== 0,
    clear: wasm.clear,
    copy: wasm.copy,
    scatterAddBelow: wasm.scatterAddBelow,
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

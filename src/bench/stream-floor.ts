import { readFileSync } from 'node:fs';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels } from '../kernels/kernels';
import type { Pointer } from '../kernels/pointer';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { ownFile } from '../own-file';
import { percentile, rounded, type Timings, timingsOf } from './statistics';

/** The kernels, and a loop that only the benchmarks run. */
export interface MeasuredKernels extends Kernels {
  /**
   * u ← u + g; v ← v + u of float32, and nothing else: it reads 12 bytes an element and writes 8, as every step of DGC
   * must. Its time is what memory alone would cost.
   */
  streamFloor(gradient: Pointer, momentum: Pointer, residual: Pointer, elementCount: number): void;
}

/** The kernels and the loop over a memory, made as {@link instantiateKernels} wants it. */
export function instantiateMeasuredKernels(memory: KernelMemory): MeasuredKernels {
  const module = new WebAssembly.Module(readFileSync(ownFile('bench/stream-floor.wasm')));
  const { exports } = new WebAssembly.Instance(module, { env: { memory: memory as WebAssembly.Memory } });
  return { ...instantiateKernels(memory), ...(exports as unknown as Pick<MeasuredKernels, 'streamFloor'>) };
}

/** How long something took, beside {@link MeasuredKernels.streamFloor}. */
export interface TimesBesideFloor {
  readonly timeMs: Timings;
  /** The median of the loop over tensors as large, run before each measurement. */
  readonly floorMs: number;
  /** The median of the time in units of the loop's. */
  readonly timesFloor: number;
}

/** @param timesMs By repetition, and `floorTimesMs` likewise. */
export function timesBesideFloor(timesMs: readonly number[], floorTimesMs: readonly number[]): TimesBesideFloor {
  const { min, p50, p99 } = timingsOf(timesMs);
  const floorP50 = percentile(floorTimesMs, 50);
  return {
    timeMs: { min: rounded(min, 6), p50: rounded(p50, 6), p99: rounded(p99, 6) },
    floorMs: rounded(floorP50, 6),
    timesFloor: rounded(p50 / floorP50, 3),
  };
}

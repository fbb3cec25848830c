import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Kernels } from '../kernels/kernels';
import type { Pointer } from '../kernels/pointer';
import { instantiateKernels } from '../kernels/wasm-kernels';

/** The kernels, and a loop that only the benchmarks run. */
export interface MeasuredKernels extends Kernels {
  /**
   * u ← u + g; v ← v + u of float32, and nothing else: it reads 12 bytes an element and writes 8, as every step of DGC
   * must. Its time is what memory alone would cost.
   */
  streamFloor(gradient: Pointer, momentum: Pointer, residual: Pointer, elementCount: number): void;
}

/** The kernels and the loop over a memory, made as {@link instantiateKernels} wants it. */
export function instantiateMeasuredKernels(memory: WebAssembly.Memory): MeasuredKernels {
  const module = new WebAssembly.Module(readFileSync(path.join(__dirname, 'stream-floor.wasm')));
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return { ...instantiateKernels(memory), ...(exports as unknown as Pick<MeasuredKernels, 'streamFloor'>) };
}

import { SCRATCH_BYTES } from '../../src/collectives/collective-call';
import { CommandRunner } from '../../src/comm-thread/command-runner';
import type { Pointer } from '../../src/kernels/kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { SharedHeap } from '../../src/memory/shared-heap';
import type { Transport } from '../../src/transport/transport';

/** A rank whose collectives run in this thread; with memory of so many bytes for its arrays. */
export function runnerOf(transport: Transport, bytes = 16) {
  const heap = new SharedHeap();
  const { memory } = heap;
  const scratch = heap.allocate(SCRATCH_BYTES);
  const data: Pointer = heap.allocate(bytes);
  const kernels = instantiateKernels(memory);
  const options = { timeoutMs: 20_000, stallMs: 0 };
  const runner = new CommandRunner({ transport, kernels, memory, scratch }, options, () => undefined);
  return { runner, data, memory, kernels };
}

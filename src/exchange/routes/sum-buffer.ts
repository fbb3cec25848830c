import { type CollectiveCall, SCRATCH_BYTES } from '../../collectives/collective-call';
import { allReduce } from '../../collectives/dense-ring';
import type { Kernels } from '../../kernels/kernels';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { SharedHeap } from '../../memory/shared-heap';

/** Numbers whose mean over all ranks is wanted, as many on each. */
export interface MeanRequest {
  readonly sent: Float32Array;
  readonly resolve: (mean: Float32Array) => void;
}

/** Memory for the numbers that the dense ring adds. It grows to the largest step. */
export class SumBuffer {
  private heap: SharedHeap | undefined;
  private kernels: Kernels | undefined;
  private scratch = 0;
  private data = 0;
  private length = 0;

  async mean(call: CollectiveCall, requests: readonly MeanRequest[]): Promise<void> {
    const length = requests.reduce((sum, { sent }) => sum + sent.length, 0);
    const heap = this.makeRoom(length);
    const array = { type: 'float32', data: this.data, elementCount: length } as const;
    let start = this.data;
    for (const { sent } of requests) {
      new Float32Array(heap.memory.buffer, start, sent.length).set(sent);
      start += sent.byteLength;
    }
    const { memory } = heap;
    const context = { ...call.context, kernels: this.kernels!, memory, scratch: this.scratch };
    await allReduce(call.inBulk(context), array, 'sum');
    start = this.data;
    for (const { sent, resolve } of requests) {
      const sums = new Float32Array(memory.buffer, start, sent.length);
      resolve(Float32Array.from(sums, sum => sum / call.worldSize));
      start += sent.byteLength;
    }
  }

  private makeRoom(length: number): SharedHeap {
    if (this.heap === undefined) {
      this.heap = new SharedHeap();
      this.scratch = this.heap.allocate(SCRATCH_BYTES);
      this.kernels = instantiateKernels(this.heap.memory);
    }
    if (length > this.length) {
      if (this.length > 0) this.heap.release(this.data, 4 * this.length);
      this.length = 0;
      this.data = this.heap.allocate(4 * length);
      this.length = length;
    }
    return this.heap;
  }
}

import { growMemory, sharedMemory } from '../../address-space';
import { type CollectiveCall, SCRATCH_BYTES } from '../../collectives/collective-call';
import { allReduce } from '../../collectives/dense-ring';
import type { KernelMemory } from '../../kernel-memory';
import type { Kernels } from '../../kernels/kernels';
import { instantiateKernels } from '../../kernels/wasm-kernels';

/** Numbers whose mean over all ranks is wanted, as many on each. */
export interface MeanRequest {
  readonly sent: Float32Array;
  readonly resolve: (mean: Float32Array) => void;
}

const MOST_BYTES = 2 ** 32;
const PURPOSE = 'for the tensors that the dense ring averages';

/** Memory for the numbers that the dense ring adds, behind its scratch. It grows to the largest step. */
export class SumBuffer {
  private made: { readonly memory: KernelMemory; readonly kernels: Kernels } | undefined;

  /** @throws GradringError `ERR_OUT_OF_MEMORY`, and what an all-reduce throws. */
  async mean(call: CollectiveCall, requests: readonly MeanRequest[]): Promise<void> {
    const elementCount = requests.reduce((sum, { sent }) => sum + sent.length, 0);
    const { memory, kernels } = (this.made ??= make());
    growMemory(memory, SCRATCH_BYTES + 4 * elementCount, PURPOSE);
    let start = SCRATCH_BYTES;
    for (const { sent } of requests) {
      new Float32Array(memory.buffer, start, sent.length).set(sent);
      start += sent.byteLength;
    }
    const context = { ...call.context, kernels, memory, scratch: 0 };
    await allReduce(call.inBulk(context), { type: 'float32', data: SCRATCH_BYTES, elementCount }, 'sum');
    start = SCRATCH_BYTES;
    for (const { sent, resolve } of requests) {
      const sums = new Float32Array(memory.buffer, start, sent.length);
      resolve(Float32Array.from(sums, sum => sum / call.worldSize));
      start += sent.byteLength;
    }
  }
}

function make() {
  const memory = sharedMemory(SCRATCH_BYTES, MOST_BYTES, PURPOSE);
  return { memory, kernels: instantiateKernels(memory) };
}

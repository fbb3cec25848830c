import { sharedMemory } from '../address-space';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels } from '../kernels/kernels';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { ArenaLayout, ExchangedTensor } from './arena-layout';

/**
 * One memory of an exchange, as the main thread sees it: the gradients of some of a model's variables and their state
 * (the paper's u and v). It has three regions with a segment for each variable, aligned to 16 bytes. Behind them is
 * what the comm thread needs for a step.
 *
 * The memory has as many pages as the layout needs, and never grows, so views of it stay valid. It is zero at first,
 * and pages that are not touched cost nothing. It is freed when no thread holds it any more.
 */
export class GradientArena {
  readonly memory: KernelMemory;
  private readonly kernels: Kernels;

  /** @throws GradringError `ERR_OUT_OF_MEMORY` if the system has no room for the memory. */
  constructor(readonly layout: ArenaLayout) {
    const { bytes } = layout;
    this.memory = sharedMemory(bytes, bytes, `for the ${bytes} bytes of a model's gradients and their state`);
    this.kernels = instantiateKernels(this.memory);
  }

  /** A tensor's g, u or v, or what a compressor keeps: a view. */
  view(tensor: ExchangedTensor, what: 'gradient' | 'momentum' | 'residual' | 'shared'): Float32Array {
    const length = what === 'shared' ? tensor.sharedLength : tensor.elementCount;
    return new Float32Array(this.memory.buffer, tensor[what], length);
  }

  /** The sum of the squares of a tensor's gradient. Not finite if, and only if, some element is not. */
  sumOfSquares({ gradient, elementCount }: ExchangedTensor): number {
    return this.kernels.sumOfSquares(gradient, elementCount);
  }
}

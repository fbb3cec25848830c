import type { NonFinite } from '../collectives/sparse-all-reduce';
import { REGION_ELEMENTS } from '../collectives/sum-payloads';
import { clipFactor } from '../compression/clipping';
import type { TensorTreatment } from '../compression/tensor-treatment';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { StepArena } from './step-arena';

/**
 * Turns sums into means, region by region while the cache has them, and notes the tensors that have overflowed. Finite
 * gradients may add up to infinity.
 */
export class Means {
  private readonly overflowed = new Set<TensorTreatment>();

  constructor(private readonly worldSize: number) {}

  /** Takes a part of a tensor's sum. */
  take(kernels: Kernels, tensor: TensorTreatment, region: Pointer, elementCount: number): void {
    if (!kernels.scale('float32', region, 1 / this.worldSize, elementCount)) this.overflowed.add(tensor);
  }

  /** Takes all sums, which are in the place of the gradients. */
  takeAll(arenas: readonly StepArena[]): void {
    for (const { context, tensors } of arenas) {
      for (const tensor of tensors) {
        const { gradient, elementCount } = tensor;
        for (let start = 0; start < elementCount; start += REGION_ELEMENTS) {
          const count = Math.min(REGION_ELEMENTS, elementCount - start);
          this.take(context.kernels, tensor, gradient + 4 * start, count);
        }
      }
    }
  }

  /** Takes means, which are in the place of the gradients. */
  check(arenas: readonly StepArena[]): void {
    for (const { context, tensors } of arenas) {
      for (const tensor of tensors) {
        if (context.kernels.firstNonFinite(tensor.gradient, tensor.elementCount) !== -1) this.overflowed.add(tensor);
      }
    }
  }

  /** Clips the means of all tensors together to a norm. All ranks do the same, as all have the same means. */
  clip(arenas: readonly StepArena[], clipNorm: number): void {
    if (this.overflowed.size > 0) return;
    let sumOfSquares = 0;
    for (const { context, tensors } of arenas) {
      for (const { gradient, elementCount } of tensors) {
        sumOfSquares += context.kernels.sumOfSquares(gradient, elementCount);
      }
    }
    const factor = clipFactor({ sumOfSquares, clipNorm, worldSize: 1 });
    if (factor === 1) return;
    for (const { context, tensors } of arenas) {
      for (const { gradient, elementCount } of tensors) {
        context.kernels.scale('float32', gradient, factor, elementCount);
      }
    }
  }

  /** Applies the momentum to the means. Not if one has overflowed. */
  applyMomentum(arenas: readonly StepArena[]): void {
    if (this.overflowed.size > 0) return;
    for (const { tensors } of arenas) {
      for (const tensor of tensors) if (!tensor.applyMomentum()) this.overflowed.add(tensor);
    }
  }

  /** Forgets the state of what has overflowed, and names the first. All ranks do so, as all have the same sums. */
  forgetOverflowed(): NonFinite | undefined {
    if (this.overflowed.size === 0) return undefined;
    for (const tensor of this.overflowed) tensor.forget();
    return { rank: undefined, tensor: Math.min(...[...this.overflowed].map(({ number }) => number)) };
  }
}

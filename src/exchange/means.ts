import type { NonFinite } from '../collectives/sparse-all-reduce';
import { REGION_ELEMENTS } from '../collectives/sum-payloads';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { StepArena, StepTensor } from './step-tensors';

/** A tensor whose sum, or update, is not finite. */
export interface Overflowed {
  readonly kernels: Kernels;
  readonly tensor: StepTensor;
}

/** Forgets what is held of every such tensor, and tells of the first. */
export function forgetAll(overflowed: readonly Overflowed[]): NonFinite | undefined {
  for (const { kernels, tensor } of overflowed) forget(kernels, tensor);
  return overflowed.length === 0
    ? undefined
    : { rank: undefined, tensor: Math.min(...overflowed.map(({ tensor }) => tensor.number)) };
}

/**
 * Begins a tensor anew whose state has overflowed on this rank, or would at every step from now on. The momentum of one
 * that travels whole is that of all ranks, and has not overflowed.
 */
export function forgetOwn(kernels: Kernels, { way, momentum, residual, elementCount }: StepTensor): void {
  if (way === 'largest') kernels.clear(momentum, elementCount);
  kernels.clear(residual, elementCount);
}

function forget(kernels: Kernels, { momentum, residual, elementCount }: StepTensor): void {
  kernels.clear(momentum, elementCount);
  kernels.clear(residual, elementCount);
}

/**
 * Turns sums into means, region by region while the cache has them, and notes which have overflowed, as finite
 * gradients may add up to infinity.
 */
export class Means {
  private readonly overflowed = new Map<number, Overflowed>();

  constructor(private readonly worldSize: number) {}

  /** Takes a part of a tensor's sum. */
  take(kernels: Kernels, tensor: StepTensor, region: Pointer, elementCount: number): void {
    if (kernels.scale('float32', region, 1 / this.worldSize, elementCount)) return;
    this.overflowed.set(tensor.number, { kernels, tensor });
  }

  /** Takes all sums, where they are in the gradients' place. */
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

  /** The first tensor whose sum is not finite. All ranks have the same sums, and so find the same. */
  get overflow(): NonFinite | undefined {
    return forgetAll([...this.overflowed.values()]);
  }
}

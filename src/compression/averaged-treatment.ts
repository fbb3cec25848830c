import type { Pointer } from '../kernels/kernels';
import type { TensorPlace, TreatmentStep } from './tensor-treatment';

/**
 * What treatments have in common that send a whole tensor: the ranks average the gradients first, and then apply the
 * momentum that they share.
 */
export abstract class AveragedTreatment {
  readonly number: number;
  readonly elementCount: number;
  readonly count: number;
  readonly gradient: Pointer;

  constructor(
    protected readonly place: TensorPlace,
    private readonly step: TreatmentStep,
    readonly indices: Pointer,
    readonly values: Pointer,
  ) {
    this.number = place.number;
    this.elementCount = this.count = place.elementCount;
    this.gradient = place.gradient;
  }

  applyMomentum(): boolean {
    const { kernels, gradient, momentum, elementCount } = this.place;
    const { momentumFactor, momentumCorrection, nesterov } = this.step;
    if (momentumFactor === 0) return true;
    if (momentumCorrection !== 1) kernels.scale('float32', momentum, momentumCorrection, elementCount);
    kernels.applyMomentum(gradient, momentum, elementCount, momentumFactor, nesterov);
    return Number.isFinite(kernels.sumOfSquares(gradient, elementCount));
  }

  forget(): void {
    const { kernels, momentum, residual, elementCount } = this.place;
    kernels.clear(momentum, elementCount);
    kernels.clear(residual, elementCount);
  }

  protected clip(): void {
    const { gradientScale } = this.step;
    if (gradientScale !== 1) this.place.kernels.scale('float32', this.gradient, gradientScale, this.count);
  }
}

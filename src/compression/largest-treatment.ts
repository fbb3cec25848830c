import { INFINITE_MAGNITUDE, type Magnitude, type Pointer } from '../kernels/kernels';
import { sentCount } from './sparsity-schedule';
import { TensorCompressor } from './tensor-compressor';
import {
  entryBytes,
  type EntryRoom,
  type TensorPlace,
  type TensorTreatment,
  type TreatmentStep,
} from './tensor-treatment';

/**
 * Deep Gradient Compression (Lin et al. 2018, Algorithm 1): a rank accumulates its gradients with its own momentum, and
 * sends the elements that are largest by now.
 */
export class LargestTreatment implements TensorTreatment {
  static room(elementCount: number, density: number): EntryRoom {
    const bytes = entryBytes(sentCount(elementCount, density));
    return { indexBytes: bytes, valueBytes: bytes, workspaceBytes: TensorCompressor.workspaceBytes(elementCount) };
  }

  readonly number: number;
  readonly elementCount: number;
  readonly gradient: Pointer;
  readonly count: number;
  largest: Magnitude | undefined;
  private readonly compressor: TensorCompressor;

  constructor(
    private readonly place: TensorPlace,
    private readonly step: TreatmentStep,
    readonly indices: Pointer,
    readonly values: Pointer,
  ) {
    this.number = place.number;
    this.elementCount = place.elementCount;
    this.gradient = place.gradient;
    this.count = sentCount(place.elementCount, step.density);
    this.compressor = new TensorCompressor(place.kernels, place, place.workspace);
  }

  compress(): boolean {
    const { count, indices, values, step } = this;
    const { gradientScale, momentumFactor, nesterov } = step;
    this.largest = this.compressor.compress({ count, indices, values, gradientScale, momentumFactor, nesterov });
    // The largest are sent, so an infinite one is among them.
    if (this.largest < INFINITE_MAGNITUDE) return true;
    this.forget();
    return false;
  }

  selectAgain(): void {
    this.largest = this.compressor.selectAgain(this);
  }

  expand(): void {
    const { gradient, elementCount, indices, values, count } = this;
    this.place.kernels.clear(gradient, elementCount);
    this.place.kernels.scatterAdd(gradient, indices, values, count);
  }

  applyMomentum(): boolean {
    return true; // the update consists of momenta
  }

  settle(): void {
    this.compressor.settle(this.indices, this.values, this.count, this.step.masks);
  }

  forget(): void {
    const { kernels, momentum, residual, elementCount } = this.place;
    kernels.clear(momentum, elementCount);
    kernels.clear(residual, elementCount);
  }
}

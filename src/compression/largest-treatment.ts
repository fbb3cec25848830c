import { INFINITE_MAGNITUDE } from '../kernels/pointer';
import { sentCount } from './sparsity-schedule';
import { TensorCompressor } from './tensor-compressor';
import { entryBytes, type EntryRoom, TensorTreatment } from './tensor-treatment';

/**
 * Deep Gradient Compression (Lin et al. 2018, Algorithm 1): a rank accumulates its gradients with its own momentum, and
 * sends the elements that are largest by now. Without momentum correction it accumulates the bare gradients, and the
 * momentum is that of the average (Gradient Dropping: Aji and Heafield 2017).
 */
export class LargestTreatment extends TensorTreatment {
  static room(elementCount: number, density: number): EntryRoom {
    const bytes = entryBytes(sentCount(elementCount, density));
    return { indexBytes: bytes, valueBytes: bytes, workspaceBytes: TensorCompressor.workspaceBytes(elementCount) };
  }

  readonly count = sentCount(this.elementCount, this.step.density);
  private readonly compressor = new TensorCompressor(this.place.kernels, this.place, this.place.workspace);

  compress(): boolean {
    const { count, indices, values, step } = this;
    const { gradientScale, momentumFactor, nesterov, correctsMomentum } = step;
    if (correctsMomentum) {
      this.largest = this.compressor.compress({ count, indices, values, gradientScale, momentumFactor, nesterov });
    } else {
      const { kernels, residual, gradient, elementCount } = this.place;
      this.clip();
      kernels.reduce('sum', 'float32', residual, gradient, elementCount);
      this.largest = this.compressor.selectAgain(this);
    }
    // The largest are sent, so an infinite one is among them.
    if (this.largest < INFINITE_MAGNITUDE) return true;
    if (correctsMomentum) this.forget();
    else this.place.kernels.clear(this.place.residual, this.elementCount);
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

  settle(): void {
    this.compressor.settle(this.indices, this.values, this.count, this.step.masks);
  }

  override applyMomentum(): boolean {
    return this.step.correctsMomentum || super.applyMomentum();
  }
}

import { entryBytes, type EntryRoom, TensorTreatment } from './tensor-treatment';

/**
 * The gradient is sent whole, in a format that rounds, with error feedback: what rounding loses in a step is added in
 * the next.
 */
export class RoundedTreatment extends TensorTreatment {
  static room(elementCount: number): EntryRoom {
    return { indexBytes: 0, valueBytes: entryBytes(elementCount), workspaceBytes: 0 };
  }

  readonly count = this.elementCount;

  compress(): boolean {
    const { values, count } = this;
    const { kernels, residual, gradient } = this.place;
    this.clip();
    kernels.reduce('sum', 'float32', residual, gradient, count);
    kernels.copy(residual, values, count);
    if (kernels.firstNonFinite(values, count) === -1) return true;
    kernels.clear(residual, count); // the momentum is that of all ranks, and has not overflowed
    return false;
  }

  selectAgain(): void {
    this.place.kernels.copy(this.place.residual, this.values, this.count);
  }

  expand(): void {
    this.place.kernels.copy(this.values, this.gradient, this.count);
  }

  settle(): void {
    const { values, count } = this;
    const { kernels, residual } = this.place;
    kernels.scale('float32', values, -1, count);
    kernels.reduce('sum', 'float32', residual, values, count);
  }
}

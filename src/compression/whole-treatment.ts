import type { Pointer } from '../kernels/kernels';
import { type EntryRoom, type TensorPlace, TensorTreatment, type TreatmentStep } from './tensor-treatment';

/** The gradient is sent as it is. Nothing is held back. */
export class WholeTreatment extends TensorTreatment {
  static room(): EntryRoom {
    return { indexBytes: 0, valueBytes: 0, workspaceBytes: 0 };
  }

  readonly count = this.elementCount;

  constructor(place: TensorPlace, step: TreatmentStep, indices: Pointer) {
    super(place, step, indices, place.gradient);
  }

  compress(): boolean {
    this.clip();
    return true;
  }

  selectAgain(): void {
    this.clip();
  }

  expand(): void {}

  settle(): void {}
}

import type { Pointer } from '../kernels/kernels';
import { AveragedTreatment } from './averaged-treatment';
import type { EntryRoom, TensorPlace, TensorTreatment, TreatmentStep } from './tensor-treatment';

/** The gradient is sent as it is. Nothing is held back. */
export class WholeTreatment extends AveragedTreatment implements TensorTreatment {
  static room(): EntryRoom {
    return { indexBytes: 0, valueBytes: 0, workspaceBytes: 0 };
  }

  constructor(place: TensorPlace, step: TreatmentStep, indices: Pointer) {
    super(place, step, indices, place.gradient);
  }

  compress(): boolean {
    this.clip();
    return true;
  }

  selectAgain(): void {
    this.clip(); // the gradient was written again
  }

  expand(): void {}

  settle(): void {}
}

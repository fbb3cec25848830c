import { LargestTreatment } from './largest-treatment';
import { RoundedTreatment } from './rounded-treatment';
import type { TreatmentKind } from './tensor-treatment';
import type { ValueFormat } from './value-format';
import { WholeTreatment } from './whole-treatment';

/**
 * How a step of that density treats a tensor.
 *
 * @param dense Whether the compression's rules send the tensor whole at any density.
 */
export function treatmentKind(dense: boolean, density: number, format: ValueFormat): TreatmentKind {
  if (!dense && density < 1) return LargestTreatment;
  // A step that sends everything goes by the dense ring, which does not round.
  return dense && format !== 'float32' ? RoundedTreatment : WholeTreatment;
}

import { CompressorTreatment } from './compressors/compressor-treatment';
import { type Compression, valueFormatOf } from './dgc-options';
import { LargestTreatment } from './largest-treatment';
import { RoundedTreatment } from './rounded-treatment';
import type { TreatmentKind } from './tensor-treatment';
import { WholeTreatment } from './whole-treatment';

/**
 * How a step of that density treats a tensor.
 *
 * @param dense Whether the compression's rules send the tensor whole at any density.
 */
export function treatmentKind(compression: Compression, dense: boolean, density: number): TreatmentKind {
  if (compression.kind === 'custom') return CompressorTreatment;
  if (!dense && density < 1) return LargestTreatment;
  // A step that sends everything goes by the dense ring, which does not round.
  return dense && valueFormatOf(compression) !== 'float32' ? RoundedTreatment : WholeTreatment;
}

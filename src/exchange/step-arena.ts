import type { CollectiveContext } from '../collectives/collective-call';
import type { GradientCodec } from '../compression/gradient-codec';
import type { CompressionMethod } from '../compression/compression-method';
import type { TensorPlace, TensorTreatment, TreatmentStep } from '../compression/tensor-treatment';
import type { ExchangedTensor } from './arena-layout';
import type { ArenaPlan } from './messages';

/** An arena with what works on it. */
export interface Arena extends ArenaPlan {
  /** For the collectives over its memory. */
  readonly context: CollectiveContext;
  readonly codec: GradientCodec;
  readonly method: CompressionMethod;
  readonly tensors: readonly (ExchangedTensor & TensorPlace)[];
}

/** An arena in a step. */
export interface StepArena extends Omit<Arena, 'tensors'> {
  readonly tensors: readonly TensorTreatment[];
}

/** Chooses how a step treats an arena's tensors, and where in its buffers their entries go. */
export function stepOf(arena: Arena, step: TreatmentStep): StepArena {
  let { indices, values } = arena;
  const tensors = arena.tensors.map(tensor => {
    const kind = arena.method.treatment(tensor.isWhole, step.density);
    const treatment = new kind(tensor, step, indices, values);
    const room = kind.room(tensor.elementCount, step.density);
    indices += room.indexBytes;
    values += room.valueBytes;
    return treatment;
  });
  // Entries behind that would be overwritten later, without an error.
  if (values > arena.workspace) throw new RangeError(`Density ${step.density} sends more than the schedule ever does.`);
  return { ...arena, tensors };
}

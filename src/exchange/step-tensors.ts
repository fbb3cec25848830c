import type { CollectiveContext } from '../collectives/collective-call';
import type { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import type { TensorCompressor } from '../compression/tensor-compressor';
import type { Magnitude, Pointer } from '../kernels/kernels';
import { entryBytes, type ExchangedTensor } from './arena-layout';
import type { ArenaPlan } from './messages';

/** A tensor with what works on it. */
export interface CompressedTensor extends ExchangedTensor {
  /** Among those of all arenas. */
  readonly number: number;
  readonly compressor: TensorCompressor;
}

/** An arena with what works on it. */
export interface Arena extends ArenaPlan {
  /** For the collectives over its memory. */
  readonly context: CollectiveContext;
  readonly codec: GradientCodec;
  readonly tensors: readonly CompressedTensor[];
}

/** What a step makes of a tensor. */
export type Way =
  /** Deep Gradient Compression: the largest of what was accumulated. */
  | 'largest'
  /** Whole, in a lossy format: what was lost before is added, what is lost now is kept. */
  | 'whole, with error feedback'
  /** Whole and exactly. */
  | 'whole';

/** A tensor in a step. */
export interface StepTensor extends CompressedTensor {
  readonly way: Way;
  /** Entries that each rank sends of it. */
  readonly count: number;
  /** The indices of what is sent of it, where that are the largest. */
  readonly indices: Pointer;
  /** What is sent of it; after encoding, what the receivers get. */
  readonly values: Pointer;
  /** The largest magnitude of what is sent, once it is selected. */
  largest?: Magnitude;
}

/** An arena in a step. */
export interface StepArena extends Arena {
  /** Whether what is sent loses its momentum. */
  readonly masks: boolean;
  readonly tensors: readonly StepTensor[];
}

/** What a step of that density makes of an arena's tensors, and where in its buffers their entries go. */
export function stepOf(arena: Arena, density: number, masks: boolean): StepArena {
  let { indices, values } = arena;
  const lossy = arena.codec.format !== 'float32';
  const tensors = arena.tensors.map((tensor): StepTensor => {
    const { elementCount, gradient } = tensor;
    if (!tensor.dense && density < 1) {
      const count = sentCount(elementCount, density);
      const entries = { way: 'largest', count, indices, values } as const;
      indices += entryBytes(count);
      values += entryBytes(count);
      return { ...tensor, ...entries };
    }
    // What of a sparse tensor travels whole does so by the dense ring, which loses nothing.
    if (!tensor.dense || !lossy) return { ...tensor, way: 'whole', count: elementCount, indices, values: gradient };
    const entries = { way: 'whole, with error feedback', count: elementCount, indices, values } as const;
    values += entryBytes(elementCount);
    return { ...tensor, ...entries };
  });
  // What lies behind is overwritten by turns, so nobody would notice at once.
  if (values > arena.workspace) throw new RangeError(`Density ${density} sends more than the schedule ever does.`);
  return { ...arena, masks, tensors };
}

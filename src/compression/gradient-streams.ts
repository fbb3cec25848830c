import { MAGNITUDE_BITS, type ValueFormat } from './value-format';

/** What both the sender and the receivers know of a tensor in a step. */
export interface CodedTensor {
  readonly elementCount: number;
  /** How many of its elements are sent. If all of them are, no indices are written. */
  readonly count: number;
}

/** The entries of all tensors as bits: docs/wire-format.md. */
export interface GradientStreams {
  readonly indices: Uint8Array;
  readonly values: Uint8Array;
}

/** About how many bits one of a tensor's largest values takes, measured on normal gradients at densities up to 0.25. */
const LARGEST_BITS: Record<ValueFormat, number> = { float32: 24, float16: 11, bfloat16: 8, int8: 6, log4: 3.5 };

/**
 * About how many bits a tensor's entries will take. All ranks must get the same number, because they choose by it how
 * the bytes travel. So it depends on what all ranks know, and is plain arithmetic, without logarithms.
 */
export function expectedBits({ elementCount, count }: CodedTensor, format: ValueFormat): number {
  if (count === elementCount) return count * (MAGNITUDE_BITS[format] + 1);
  // Rice's code with p = ⌊log₂ of the mean gap⌋ takes p + 1 bits and a quotient of 1.5 on average; a bitmap n bits.
  const gapBits = 31 - Math.clz32(elementCount / count) + 2;
  return Math.min(count * gapBits, elementCount) + count * LARGEST_BITS[format];
}

/** A byte offset in the one shared memory, 0 to 2³² − 1. */
export type Pointer = number;

/** Rounds bytes up to the alignment of tensors, so that the next tensor may begin behind them. */
export function align(bytes: number): number {
  return 16 * Math.ceil(bytes / 16);
}

/**
 * The absolute value of a float32 as an integer: its bits without the sign, 0 to 0x7f7fffff while it is finite.
 * Magnitudes order exactly as absolute values do; zeros of either sign are equal.
 */
export type Magnitude = number;

/** The magnitude that no finite value reaches. */
export const INFINITE_MAGNITUDE: Magnitude = 0x7f800000;

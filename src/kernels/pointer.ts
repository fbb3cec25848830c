/** A byte offset in the one shared memory, 0 to 2³² − 1. */
export type Pointer = number;

/** Rounds bytes up to the alignment of tensors, so that the next tensor may begin behind them. */
export function align(bytes: number): number {
  return 16 * Math.ceil(bytes / 16);
}

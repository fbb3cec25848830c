/** The input of {@link clipFactor}. */
export interface ClipInput {
  /** Σ g² of this rank's own mean gradient over all tensors of the model; finite. */
  readonly sumOfSquares: number;
  /** The norm to which the gradient of the whole ring would be clipped. Undefined: no clipping. */
  readonly clipNorm: number | undefined;
  readonly worldSize: number;
}

/**
 * The factor by which a rank multiplies its gradient before accumulating it, so that its norm is at most
 * clipNorm · √worldSize. At most 1, rounded to float32.
 *
 * In the paper (section 3.2, local gradient clipping) N ranks sum gradients h that are scaled by 1/N already. If they
 * are independent with equal variance, the norm of the sum is √N times the norm of each, so each is clipped to
 * clipNorm · N^(−½). Here each rank holds its own mean g = N·h, and the ranks take the mean at the end. So the same
 * clip of h, ‖h‖ ≤ clipNorm · N^(−½), is ‖g‖ ≤ N · clipNorm · N^(−½) = clipNorm · N^(½).
 */
export function clipFactor({ sumOfSquares, clipNorm, worldSize }: ClipInput): number {
  if (clipNorm === undefined) return 1;
  const norm = Math.sqrt(sumOfSquares);
  const threshold = clipNorm * Math.sqrt(worldSize);
  return norm > threshold ? Math.fround(threshold / norm) : 1;
}

/** What {@link clipFactor} needs to know. */
export interface ClipInput {
  /** Σ g² of this rank's own mean gradient over all tensors of the model; finite. */
  readonly sumOfSquares: number;
  /** The norm to which the gradient of the whole ring would be clipped; undefined for no clipping. */
  readonly clipNorm: number | undefined;
  readonly worldSize: number;
}

/**
 * The factor, at most 1 and rounded to float32, by which a rank multiplies its gradient before accumulating it, so that
 * the norm is at most clipNorm · √worldSize. It is 1 where the norm is not above that, or clipNorm is undefined.
 *
 * The paper (section 3.2, local gradient clipping) has N ranks sum gradients h that carry the factor 1/N already.
 * If they are independent with equal variance, the norm of the sum is √N times that of each, so each is clipped
 * to clipNorm · N^(−½). Here each rank holds its own mean g = N·h and the mean over ranks is taken at the end. The same
 * clip of h, ‖h‖ ≤ clipNorm · N^(−½), is therefore ‖g‖ ≤ N · clipNorm · N^(−½) = clipNorm · N^(½).
 */
export function clipFactor({ sumOfSquares, clipNorm, worldSize }: ClipInput): number {
  if (clipNorm === undefined) return 1;
  const norm = Math.sqrt(sumOfSquares);
  const threshold = clipNorm * Math.sqrt(worldSize);
  return norm > threshold ? Math.fround(threshold / norm) : 1;
}

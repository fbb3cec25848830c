import { inspect } from 'node:util';
import { invalidArgument } from '../errors';

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

/**
 * What `clipNorm` clips. `rank`: the gradient of each rank, to the norm times √N (local gradient clipping, section 3.2
 * of the paper). `mean`: the mean that all ranks have decoded, as in a training on one process. Then each rank also
 * clips its own, to ten times as much as with `rank`, so that one exploding gradient is not held back and sent for many
 * steps.
 */
export type ClipPlace = 'rank' | 'mean';

/** Where there is a clip norm: what clips the gradient of a rank, and what clips the mean. */
export interface ClipNorms {
  readonly rank: number | undefined;
  readonly mean: number | undefined;
}

/** How many times as much a rank may keep where the mean is clipped. */
const GUARD = 10;

/** The norms for a place. */
export function clipNormsAt(place: ClipPlace, clipNorm: number | undefined): ClipNorms {
  if (place === 'rank' || clipNorm === undefined) return { rank: clipNorm, mean: undefined };
  return { rank: GUARD * clipNorm, mean: clipNorm };
}

/** @throws GradringError `ERR_INVALID_ARGUMENT`. */
export function requireClipPlace(caller: string, place: unknown): void {
  if (place === undefined || place === 'rank' || place === 'mean') return;
  throw invalidArgument(`${caller}: clipAt is 'rank' or 'mean', not ${inspect(place)}`);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if it is given, and is no norm to which a gradient can be clipped. */
export function requireNorm(caller: string, clipNorm: unknown): void {
  if (clipNorm === undefined || (typeof clipNorm === 'number' && clipNorm > 0 && Number.isFinite(clipNorm))) return;
  throw invalidArgument(
    `${caller}: clipNorm is a positive, finite norm, not ${inspect(clipNorm)}; leave it out for no clipping`,
  );
}

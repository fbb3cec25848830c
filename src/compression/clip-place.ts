import { inspect } from 'node:util';
import { invalidArgument } from '../errors';

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

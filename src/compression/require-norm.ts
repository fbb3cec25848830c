import { inspect } from 'node:util';
import { invalidArgument } from '../errors';

/** @throws GradringError `ERR_INVALID_ARGUMENT` if it is given, and is no norm to which a gradient can be clipped. */
export function requireNorm(caller: string, clipNorm: unknown): void {
  if (clipNorm === undefined || (typeof clipNorm === 'number' && clipNorm > 0 && Number.isFinite(clipNorm))) return;
  throw invalidArgument(
    `${caller}: clipNorm is a positive, finite norm, not ${inspect(clipNorm)}; leave it out for no clipping`,
  );
}

import type { Kernels, Pointer } from '../kernels/kernels';

/**
 * The parameter of the Rice code that takes the fewest bits for symbols of that mean. For a geometric distribution, that of
 * gaps between uniformly placed indices, it is next to log₂ of the mean, so the search starts there.
 *
 * @param search 'near' goes on only while it gets better. 'far' tries all parameters down to 0: where a few symbols
 *   are large and most are small, the best is far below, with worse ones in between.
 */
export function riceParameter(
  kernels: Kernels,
  symbols: Pointer,
  count: number,
  mean: number,
  search: 'near' | 'far',
): number {
  let best = 0;
  let least = Infinity;
  // Each count tells of three parameters.
  const improves = (parameter: number): boolean => {
    const { below, at, above } = kernels.riceCost(symbols, count, parameter);
    const cost = Math.min(below, at, above);
    if (cost >= least) return false;
    least = cost;
    best = Math.min(31, Math.max(0, parameter + (cost === at ? 0 : cost === below ? -1 : 1)));
    return true;
  };
  const start = Math.min(31, 31 - Math.clz32(Math.max(1, mean)));
  improves(start);
  if (best > start) for (let p = start + 3; p <= 32 && improves(Math.min(31, p)); p += 3);
  const far = search === 'far';
  if (best < start || far) for (let p = start - 3; p > -2 && (improves(Math.max(0, p)) || far); p -= 3);
  return best;
}

/** Bits of a number as large as this, 0 of 0. */
export function bitWidth(value: number): number {
  return 32 - Math.clz32(value);
}

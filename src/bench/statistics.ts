/** How long something took, over many repetitions, in the unit of the samples. */
export interface Timings {
  readonly min: number;
  readonly p50: number;
  readonly p99: number;
}

/**
 * The smallest sample that at least this percentage of the samples do not exceed (the "nearest rank"). It is always one
 * of the samples. With fewer than a hundred samples the 99th percentile is the largest one.
 *
 * @param percent More than 0, up to 100.
 * @param samples At least one, in any order. They are not changed.
 */
export function percentile(samples: readonly number[], percent: number): number {
  const ascending = Float64Array.from(samples).sort();
  return ascending[Math.ceil((percent / 100) * ascending.length) - 1]!;
}

/** The smallest of at least one sample. They may be too many for the arguments of a call. */
export function smallest(samples: readonly number[]): number {
  return samples.reduce((least, sample) => Math.min(least, sample));
}

/** {@link Timings} of at least one sample. */
export function timingsOf(samples: readonly number[]): Timings {
  return { min: smallest(samples), p50: percentile(samples, 50), p99: percentile(samples, 99) };
}

/** Rounded to a number of decimals: six turn milliseconds into whole nanoseconds. */
export function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}

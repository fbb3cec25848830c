/** What a rank holds after a step; memory in bytes. */
export interface Sample {
  readonly rank: number;
  readonly step: number;
  readonly rss: number;
  readonly external: number;
  readonly heapUsed: number;
  readonly tensors: number;
}

/** What the last quarter may hold more than the second: measured noise of the collector, and no more. */
const GROWTH_FACTOR = 1.05;
const GROWTH_BYTES = 5e6;

/**
 * Whether memory stayed flat: on each rank the median of the last quarter of the samples is at most 1.05 times that of
 * the second quarter and 5 MB. (In the first quarter there are the caches to fill, and code to compile.) Tensors may
 * not become more at all.
 *
 * @returns What is wrong, in words.
 */
export function growth(samples: readonly Sample[]): string[] {
  const ranks = [...new Set(samples.map(({ rank }) => rank))];
  return ranks.flatMap(rank => {
    const its = samples.filter(sample => sample.rank === rank);
    const quarter = (number: number) =>
      its.slice(Math.floor((its.length * number) / 4), Math.floor((its.length * (number + 1)) / 4));
    const medians = (name: keyof Sample) => [1, 3].map(number => median(quarter(number).map(sample => sample[name])));
    const wrongs = (['rss', 'external', 'heapUsed'] as const).flatMap(name => {
      const [before, after] = medians(name);
      return after <= GROWTH_FACTOR * before + GROWTH_BYTES
        ? []
        : [`rank ${rank}: ${name} grew from ${before} to ${after}`];
    });
    const [before, after] = medians('tensors');
    return after > before ? [...wrongs, `rank ${rank}: ${after - before} more tensors`] : wrongs;
  });
}

/** Steps at which ranks had other weights than each other, or not all ranks told. */
export function differences(
  hashes: readonly { readonly rank: number; readonly step: number; readonly hash: string }[],
  ranks: number,
): string[] {
  const steps = [...new Set(hashes.map(({ step }) => step))];
  return steps.flatMap(step => {
    const its = hashes.filter(entry => entry.step === step);
    if (its.length < ranks) return [`after step ${step} only ${its.length} ranks told of their weights`];
    return new Set(its.map(({ hash }) => hash)).size === 1 ? [] : [`after step ${step} the weights are not the same`];
  });
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

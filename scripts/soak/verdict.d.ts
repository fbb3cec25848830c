export interface Sample {
  readonly rank: number;
  readonly step: number;
  readonly rss: number;
  readonly external: number;
  readonly heapUsed: number;
  readonly tensors: number;
}

export function growth(samples: readonly Sample[]): string[];

export function differences(
  hashes: readonly { readonly rank: number; readonly step: number; readonly hash: string }[],
  ranks: number,
): string[];

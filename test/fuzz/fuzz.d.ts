import type { Random } from './random';

export interface Entry {
  readonly bytes: Uint8Array;
}

export interface Target {
  readonly name: string;
  seeds(): Entry[];
  mutate?(random: Random, entry: Entry, other: Entry): Entry;
  run(bytes: Uint8Array): { outcome: string; features?: Iterable<number> };
}

export interface Report {
  readonly inputs: number;
  readonly outcomes: Map<string, number>;
  readonly features: number;
  readonly seconds: number;
  readonly crash?: { readonly bytes: Uint8Array; readonly error: Error };
}

export function fuzz(
  target: Target,
  options: { seed: number; inputs?: number; seconds?: number; onProgress?: (report: Report) => void },
): Report;

import { availableParallelism } from 'node:os';

/** More threads of a rank would only wait for memory. */
export const MOST_THREADS = 64;

/**
 * How many threads of a rank compress by default: its share of the cores, less the one that trains.
 *
 * @param ranksHere How many ranks there are on this host.
 */
export function defaultThreads(ranksHere: number, cores = availableParallelism()): number {
  return Math.min(MOST_THREADS, Math.max(1, Math.floor(cores / ranksHere) - 1));
}

import { availableParallelism } from 'node:os';

/** More threads of a rank would only wait for memory. */
export const MOST_THREADS = 64;

/** What a number of threads must be, if it is something else. */
export function threadsFault(threads: number): string | undefined {
  const isOne = Number.isInteger(threads) && threads >= 1 && threads <= MOST_THREADS;
  return isOne ? undefined : `a whole number from 1 to ${MOST_THREADS}`;
}

/**
 * How many threads of a rank compress by default: its share of the cores, less the one that trains.
 *
 * @param ranksHere How many ranks there are on this host.
 */
export function defaultThreads(ranksHere: number, cores = availableParallelism()): number {
  return Math.min(MOST_THREADS, Math.max(1, Math.floor(cores / ranksHere) - 1));
}

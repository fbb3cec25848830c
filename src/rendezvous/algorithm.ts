import { availableParallelism } from 'node:os';

/** How arrays that are not large are all-reduced. */
export type AllReduceAlgorithm = 'auto' | 'ring' | 'tree';

/**
 * Whether barriers, and all-reduces of up to some MiB, go by a tree. It takes fewer frames, and more hops one after the
 * other: that is faster where ranks must wait for a core, and slower elsewhere.
 *
 * @param hostIds By rank. Whoever holds the rendezvous decides, for all ranks must do the same, and each may be allowed
 *   other cores.
 */
export function prefersTree(algorithm: AllReduceAlgorithm, hostIds: readonly string[]): boolean {
  if (algorithm !== 'auto') return algorithm === 'tree';
  return hostIds.length > availableParallelism() && hostIds.every(hostId => hostId === hostIds[0]);
}

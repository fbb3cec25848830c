import { availableParallelism } from 'node:os';

/** More ranks than this for each core are probably a mistake. Fewer are useful to try something out. */
const MOST_PER_CORE = 4;

/** A warning, if a host has far fewer cores than ranks. */
export function crowdWarning(ranks: number, host = 'this host', cores = availableParallelism()): string | undefined {
  if (ranks <= MOST_PER_CORE * cores) return undefined;
  const has = cores === 1 ? 'core' : 'cores';
  return `${ranks} ranks share the ${cores} ${has} of ${host}: they will be slow, and each needs memory for the whole model. As many ranks as cores are the fastest.`;
}

import { availableParallelism } from 'node:os';

/**
 * Divides the cores between the ranks of a host: TensorFlow would start as many threads in each rank as there are
 * cores, and ranks that wait for each other's threads are much slower. Variables that the user has set stay as they
 * are.
 */
export function threadVariables(
  ranks: number,
  env: NodeJS.ProcessEnv,
  cores: number = availableParallelism(),
): Record<string, string> {
  if (ranks === 1) return {};
  const threads = String(Math.max(1, Math.floor(cores / ranks)));
  const wanted = { TF_NUM_INTRAOP_THREADS: threads, TF_NUM_INTEROP_THREADS: '1', OMP_NUM_THREADS: threads };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}

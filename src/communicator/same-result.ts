import { createHash } from 'node:crypto';
import { GradringError, isLoss } from '../errors';
import { requirePlain } from '../plain-json';

/**
 * Runs something on all ranks, and returns its result when all ranks have the same.
 *
 * @param allGather A collective, with the result by rank.
 * @throws GradringError `ERR_RESULTS_DIFFER` on every rank if they have not, naming those that differ from rank 0. If
 *   `run` throws, its error is thrown on this rank; a lost rank is thrown at once.
 */
export async function sameResult<T>(
  run: () => Promise<T>,
  allGather: (own: Uint8Array) => Promise<Uint8Array[]>,
): Promise<T> {
  let own: { readonly result: T } | { readonly error: unknown };
  try {
    own = { result: requirePlain(await run(), 'ring.allOrNone cannot give back', 'result') };
  } catch (error) {
    if (isLoss(error)) throw error;
    own = { error };
  }
  const told = 'error' in own ? `${THREW}${messageOf(own.error)}` : digestOf(own.result);
  const all = (await allGather(new TextEncoder().encode(told))).map(bytes => new TextDecoder().decode(bytes));
  if ('error' in own) throw own.error;
  const failed = all.flatMap((text, rank) => (text.startsWith(THREW) ? [rank] : []));
  const differing = failed.length > 0 ? failed : all.flatMap((text, rank) => (text === all[0] ? [] : [rank]));
  const [rank] = differing;
  if (rank === undefined) return own.result;
  const ranks = differing.map(each => `rank ${each}`).join(', ');
  const what =
    failed.length > 0
      ? `${ranks} ${all[rank]}`
      : `${ranks} returned another value than rank 0. The function must return the same on all ranks.`;
  const words = `ring.allOrNone is done by all ranks or by none, but ${what}`;
  throw new GradringError('ERR_RESULTS_DIFFER', words, { rank });
}

/** Begins what a rank tells whose function has thrown. */
const THREW = 'threw: ';

/** The same for equal values, in whatever order objects have their properties. */
function digestOf(value: unknown): string {
  const sorted = (_: string, part: unknown): unknown =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part;
  return createHash('sha256')
    .update(JSON.stringify(value, sorted) ?? '')
    .digest('hex');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

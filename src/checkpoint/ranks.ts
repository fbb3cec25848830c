import { deserializeError, serializeError, type SerializedError } from '../errors';

/** What a checkpoint needs of a ring. */
export interface Ranks {
  readonly rank: number;
  readonly worldSize: number;
  /** The lengths may differ. */
  allGather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

type Outcome<T> = { readonly value?: T } | { readonly error: SerializedError };

/**
 * Runs each rank's part of something. When all ranks are done, returns the results by rank. If some rank fails, all
 * ranks throw the error of the lowest one that did, with its rank.
 *
 * @param undo Called first on every rank if some rank failed. Not called if the ring fails: then others may have
 *   succeeded.
 */
export async function together<T>(
  ranks: Ranks,
  part: () => T | Promise<T>,
  undo: () => void | Promise<void> = () => undefined,
): Promise<T[]> {
  let own: Outcome<T>;
  try {
    own = { value: await part() };
  } catch (error) {
    own = { error: serializeError(error, 'ERR_CHECKPOINT') };
  }
  const gathered = await ranks.allGather(new TextEncoder().encode(JSON.stringify(own)));
  const outcomes = gathered.map(bytes => JSON.parse(new TextDecoder().decode(bytes)) as Outcome<T>);
  if (outcomes.some(outcome => 'error' in outcome)) await undo();
  return outcomes.map((outcome, rank) => {
    if (!('error' in outcome)) return outcome.value as T;
    const { code, message, details } = outcome.error;
    throw deserializeError({ code, message: `Rank ${rank}: ${message}`, details: { rank, ...details } });
  });
}

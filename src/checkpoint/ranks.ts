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
 * Does each rank's part of something, and returns what each has to tell, by rank, once all are done. If some rank
 * fails, all throw the error of the first that did, with its rank.
 *
 * @param undo What every rank does first if some rank failed. Not so if the ring fails: then others may have succeeded.
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

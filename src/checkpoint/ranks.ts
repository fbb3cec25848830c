import { deserializeError, readError, serializeError, type SerializedError } from '../errors';
import { checkedValue, decodeValues, encodeValue } from '../rank-values';
import { type Check, isAnything, isOneOf, isWith } from '../shape';

/** What a checkpoint needs of a ring. */
export interface Ranks {
  readonly rank: number;
  readonly worldSize: number;
  /** The lengths may differ. */
  allGather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

/** The result of a rank's part, or why it failed. */
interface Outcome {
  readonly value: unknown;
  readonly error: unknown;
}

const isOutcome = isWith<Outcome>({ value: isAnything, error: isAnything });
const isThere: Check<SerializedError> = (error): error is SerializedError => error !== undefined;

/** Checks the result of a part that returns nothing. */
export const isNothing = isOneOf([undefined]);

/**
 * Runs each rank's part of something. When all ranks are done, returns the results by rank. If some rank fails, all
 * ranks throw the error of the lowest one that did, with its rank.
 *
 * @param isResult Whether what another rank returns can be a result.
 * @param undo Called first on every rank if some rank failed. Not called if the ring fails: then others may have
 *   succeeded.
 * @throws GradringError `ERR_PROTOCOL` for a rank whose result is none.
 */
export async function together<T>(
  ranks: Ranks,
  isResult: Check<T>,
  part: () => T | Promise<T>,
  undo: () => void | Promise<void> = () => undefined,
): Promise<T[]> {
  let own: Partial<Outcome>;
  try {
    own = { value: await part() };
  } catch (error) {
    own = { error: serializeError(error, 'ERR_CHECKPOINT') };
  }
  const gathered = await ranks.allGather(encodeValue(own));
  try {
    return decodeValues(gathered, isOutcome).map(({ value, error }, rank) => {
      if (error === undefined) return checkedValue(value, rank, isResult);
      const { code, message, details } = checkedValue(readError(error), rank, isThere);
      throw deserializeError({ code, message: `Rank ${rank}: ${message}`, details: { rank, ...details } });
    });
  } catch (error) {
    await undo();
    throw error;
  }
}

import { GradringError } from '../errors';

/** Whatever is wrong with a payload is the fault of the rank that made it. */
export function blaming<T>(rank: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const words = `Rank ${rank} sent a bad payload: ${(error as Error).message}`;
    throw new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error });
  }
}

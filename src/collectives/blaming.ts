import { GradringError } from '../errors';

/** Runs a reader of a rank's payload. If it fails, throws `ERR_PROTOCOL` with the rank that made the payload. */
export function blaming<T>(rank: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof GradringError && error.code === 'ERR_OUT_OF_MEMORY') throw error; // this rank's own fault
    const words = `Rank ${rank} sent a bad payload: ${(error as Error).message}`;
    throw new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error });
  }
}

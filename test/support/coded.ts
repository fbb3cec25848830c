import type { ErrorCode } from '../../src/errors';

/** Matches an error with that code, thrown or as plain data, whose message matches the words. */
export function coded(words: RegExp, code: ErrorCode = 'ERR_INVALID_ARGUMENT'): Error {
  return expect.objectContaining({ code, message: expect.stringMatching(words) }) as Error;
}

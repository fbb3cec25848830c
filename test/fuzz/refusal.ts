import { type ErrorCode, GradringError } from '../../src/errors';

/** The code under test broke a promise: a bug. */
export class Violation extends Error {}

/** Throws a {@link Violation} if a promise does not hold. */
export function demand(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Violation(what);
}

/**
 * Why a decoder refused, without the numbers, so that refusals can be counted by kind.
 *
 * @param code The one that a refusal has.
 * @throws Violation for any other error.
 */
export function refusalOf(error: unknown, code: ErrorCode = 'ERR_PROTOCOL'): string {
  if (error instanceof Violation) throw error;
  if (!(error instanceof GradringError) || error.code !== code) {
    throw new Violation(`The decoder threw ${(error as Error)?.stack ?? String(error)}`, { cause: error });
  }
  const { cause } = error;
  // The words of JSON.parse quote the input.
  const why = cause === undefined ? '' : ` (${cause instanceof SyntaxError ? cause.name : (cause as Error).message})`;
  return `${error.message}${why}`
    .replace(/holds \w+ values where \w+/, 'holds # values where #')
    .replace(/-?\d+/g, '#');
}

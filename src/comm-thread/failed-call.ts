import { type ErrorDetails, GradringError } from '../errors';
import type { Transport } from '../transport/transport';

/**
 * Ends the ring because of an error in a call, as other ranks wait for this one. Settles with what the call throws:
 * what all ranks raise, with where this rank was.
 *
 * @param where The call, for programs.
 * @param words The call, for the user. They follow "was in".
 */
export async function failCall(
  transport: Transport,
  error: unknown,
  where: ErrorDetails,
  words = where.operation!,
): Promise<GradringError> {
  const { rank } = transport;
  const coded =
    error instanceof GradringError
      ? error
      : new GradringError('ERR_COMM_THREAD', `Rank ${rank} failed in ${where.operation}: ${String(error)}`, { rank });
  const cause = new GradringError(coded.code, coded.message, { ...where, ...coded.details }, { cause: error });
  const failure = await transport.fail(cause);
  const message = `${failure.message} (Rank ${rank} was in ${words}.)`;
  return new GradringError(failure.code, message, { ...failure.details, ...where });
}

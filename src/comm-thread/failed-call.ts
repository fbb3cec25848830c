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
  const cause =
    error instanceof GradringError
      ? new GradringError(error.code, error.message, { ...where, ...error.details }, { cause: error })
      : failedInside(rank, where, error);
  const failure = await transport.fail(cause);
  const message = `${failure.message} (Rank ${rank} was in ${words}.)`;
  return new GradringError(failure.code, message, { ...failure.details, ...where });
}

function failedInside(rank: number, where: ErrorDetails, cause: unknown): GradringError {
  const words = `Rank ${rank} failed in ${where.operation}: ${String(cause)}`;
  return new GradringError('ERR_COMM_THREAD', words, { ...where, rank }, { cause });
}

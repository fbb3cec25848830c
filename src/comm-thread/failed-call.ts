import { type ErrorDetails, GradringError } from '../errors';
import type { Transport } from '../transport/transport';

/** A call of this rank. */
export interface Place {
  /** For programs. */
  readonly where: ErrorDetails;
  /** For the user. They follow "was in". */
  readonly words: string;
}

/**
 * Ends the ring because of an error in a call, as other ranks wait for this one. Settles with what the call throws:
 * what all ranks raise, with where this rank was.
 */
export async function failCall(transport: Transport, error: unknown, place: Place): Promise<GradringError> {
  const { rank } = transport;
  const coded =
    error instanceof GradringError
      ? error
      : new GradringError('ERR_COMM_THREAD', `Rank ${rank} failed in ${place.where.operation}: ${String(error)}`, {
          rank,
        });
  const { code, message, details } = await transport.fail(coded);
  return new GradringError(code, `${message} (Rank ${rank} was in ${place.words}.)`, { ...details, ...place.where });
}

/**
 * @param where The call that needs the ring.
 * @throws the error that the ring has failed with, if it has, with that call.
 */
export function requireUsable({ failure, rank }: Transport, where: () => ErrorDetails = () => ({})): void {
  if (failure === undefined) return;
  const { code, message, details } = failure;
  const call = where();
  const called = call.operation === undefined ? '' : ` (Rank ${rank} called ${call.operation}.)`;
  const words = `The ring has failed and cannot be used any more: ${message}${called}`;
  throw new GradringError(code, words, { ...details, ...call });
}

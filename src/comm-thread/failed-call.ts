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
  return raisedAt(await transport.fail(coded), transport, place);
}

/** @throws the error that the ring has failed with, if it has, with the call that finds it so. */
export function requireUsable(transport: Transport, place?: () => Place): void {
  const { failure } = transport;
  if (failure === undefined) return;
  const words = `The ring has failed and cannot be used any more: ${failure.message}`;
  const error = new GradringError(failure.code, words, failure.details);
  throw place === undefined ? error : raisedAt(error, transport, place());
}

function raisedAt({ code, message, details }: GradringError, { rank }: Transport, { where, words }: Place) {
  return new GradringError(code, `${message} (Rank ${rank} was in ${words}.)`, { ...details, ...where });
}

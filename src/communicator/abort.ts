import { type ErrorDetails, GradringError, invalidArgument } from '../errors';

/** An option of every collective. */
export interface CallOptions {
  /**
   * Ends the call with `ERR_ABORTED`. A signal that is aborted already ends it before anything is sent. Later the other
   * ranks may be in the call, too, and none can finish it without this one: so the ring fails on all ranks, as by
   * MPI_Abort, with the number of this rank. A signal that comes when the call is over does nothing. A `…Sync` call
   * looks at the signal only when it begins, because its thread hears nothing while it sleeps.
   */
  readonly signal?: AbortSignal | undefined;
}

/**
 * @param call The user's call: `ring.allReduce`.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it is no signal, `ERR_ABORTED` if it is aborted.
 */
export function checkSignal(call: string, signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  if (typeof signal?.aborted !== 'boolean' || typeof signal.addEventListener !== 'function') {
    throw invalidArgument(`${call} takes an AbortSignal as its signal.`);
  }
  if (signal.aborted) throw aborted(`${call} got a signal that was aborted before: nothing was sent.`, signal);
}

/** The error for a call that a signal has ended. Its cause is the reason of the signal. */
export function aborted(message: string, signal: AbortSignal, details?: ErrorDetails): GradringError {
  return new GradringError('ERR_ABORTED', message, details, { cause: signal.reason });
}

/**
 * The error of a call, with the reason of its signal if the signal has ended it. The comm thread does not know the
 * reason.
 */
export function withReason(error: unknown, rank: number, signal: AbortSignal | undefined): unknown {
  if (!signal?.aborted || !(error instanceof GradringError)) return error;
  return error.code === 'ERR_ABORTED' && error.rank === rank ? aborted(error.message, signal, error.details) : error;
}

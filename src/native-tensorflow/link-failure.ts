import { GradringError } from '../errors';

/** Something was not found, not built, or does not work. The message says what is missing and what to do. */
export function linkFailure(message: string): GradringError {
  return new GradringError('ERR_TENSORFLOW', message);
}

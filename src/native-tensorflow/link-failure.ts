import { GradringError } from '../errors';

/** What could not be found, built or proved. The words say what is missing and what to do. */
export function linkFailure(message: string): GradringError {
  return new GradringError('ERR_TENSORFLOW', message);
}

import { systemCode } from '../checkpoint/checkpoint-errors';
import { GradringError } from '../errors';

/** The error for a model that cannot be saved or loaded. `why` also says what to do. */
export function modelFailure(doing: 'saved to' | 'loaded from', path: string, why: string, cause?: unknown) {
  return new GradringError('ERR_MODEL_FILES', `The model cannot be ${doing} ${path}: ${why}`, {}, { cause });
}

/** An error of the file system, in words that say what to do. */
export function refusal(error: unknown, doing: 'read' | 'write'): string {
  const { message } = error as Error;
  const isForbidden = ['EACCES', 'EPERM'].includes(systemCode(error) ?? '');
  return isForbidden ? `${message}. Give the user of this process the right to ${doing} there.` : `${message}.`;
}

import { GradringError } from '../errors';

/** The error for a file that is not what was written: cut off, changed, or of another program. */
export function damaged(path: string, reason: string): GradringError {
  return new GradringError('ERR_CHECKPOINT_DAMAGED', `The checkpoint's ${path} is damaged: ${reason}.`);
}

/** The error if the file system refuses: no space, no permission, no such folder. */
export function refused(what: 'read' | 'write' | 'remove', path: string, cause: unknown): GradringError {
  const words = cause instanceof Error ? cause.message : String(cause);
  return new GradringError('ERR_CHECKPOINT', `The checkpoint cannot ${what} ${path}: ${words}`, {}, { cause });
}

/** The code of an error of the file system, such as ENOENT. */
export function systemCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}

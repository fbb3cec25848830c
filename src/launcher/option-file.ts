import { readFileSync } from 'node:fs';
import { invalidArgument } from '../errors';

/**
 * The text of a file that an option names.
 *
 * @param option The option, for the error.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it cannot be read.
 */
export function readOptionFile(file: string, option: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'does not exist' : `cannot be read: ${message}`;
    throw invalidArgument(`${option} is '${file}', which ${why}.`);
  }
}

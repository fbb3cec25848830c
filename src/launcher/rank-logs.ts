import { createWriteStream, mkdirSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import { invalidArgument } from '../errors';
import { fileModeIn, PRIVATE_FOLDER } from '../file-mode';
import { LineOutput } from './line-output';

/**
 * Opens the log of a rank, `<folder>/rank-<rank>.log`, in the place of an older one. The folder is created.
 *
 * @param onLost Called once, with the reason, if the log cannot be continued.
 * @param option The option that names the folder, for the error.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it cannot be opened.
 */
export function openRankLog(folder: string, rank: number, onLost: (words: string) => void, option: string): LineOutput {
  const file = path.join(folder, `rank-${rank}.log`);
  let fd: number;
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER });
    rmSync(file, { force: true }); // not written again: it may be a link
    fd = openSync(file, 'wx', fileModeIn(folder));
  } catch (error) {
    throw invalidArgument(
      `The log ${file} cannot be written: ${(error as Error).message}. Choose another folder with ${option}.`,
    );
  }
  const stream = createWriteStream(file, { fd });
  return new LineOutput(stream, error => onLost(`the log ${file} ends here: ${error.message}`));
}

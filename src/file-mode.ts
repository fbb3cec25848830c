import { statSync } from 'node:fs';

/** The mode of a folder that gradring makes for what a training leaves: for this user alone, whatever the umask. */
export const PRIVATE_FOLDER = 0o700;

/**
 * The mode of a folder that is made within another: the same people may use both, so the outer folder's maker decides.
 * In a folder for all users, such as /tmp, it is private. Only its user and its group may ever write to it.
 */
export function folderModeIn(folder: string): number {
  const { mode } = statSync(folder);
  const isEveryones = (mode & 0o1000) !== 0;
  return PRIVATE_FOLDER | (isEveryones ? 0 : mode & 0o075);
}

/** The mode of a file that is made in a folder, as that of {@link folderModeIn}. */
export function fileModeIn(folder: string): number {
  return folderModeIn(folder) & 0o666;
}

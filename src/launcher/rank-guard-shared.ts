import { rmSync } from 'node:fs';

/** The variable that tells the guard in a rank which file descriptor the launcher's pipe has. */
export const GUARD_FD_VARIABLE = 'GRADRING_GUARD_FD';

/** The descriptor itself: the first after stdin, stdout and stderr. */
export const GUARD_FD = 3;

/** The variable that names the launcher's folder for sockets, if it has made one. */
export const GUARD_FOLDER_VARIABLE = 'GRADRING_GUARD_FOLDER';

/** What the guard gives its thread. */
export interface GuardData {
  readonly fd: number;
  /** The folder to remove if the launcher cannot do it any more. */
  readonly folder: string | undefined;
}

/** Removes a folder. The other ranks of the host do the same at the same time. */
export function removeFolder(folder: string): void {
  for (let attempts = 0; attempts < 3; attempts++) {
    try {
      return rmSync(folder, { recursive: true, force: true });
    } catch {
      // Another rank has removed something in it first.
    }
  }
}

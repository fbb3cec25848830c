/** The variable that tells the guard in a rank which file descriptor the launcher's pipe has. */
export const GUARD_FD_VARIABLE = 'GRADRING_GUARD_FD';

/** The descriptor itself: the first after stdin, stdout and stderr. */
export const GUARD_FD = 3;

/** What the guard gives its thread. */
export interface GuardData {
  readonly fd: number;
}

import { writeSync } from 'node:fs';
import { type ErrorCode, GradringError } from '../errors';

/**
 * The variable with which a rank finds the pipe to its launcher: the id of its process, and the descriptor. The
 * descriptor is something else in a process that only inherits the variable.
 */
export const LAUNCHER_PIPE_VARIABLE = 'GRADRING_LAUNCHER_PIPE';

/** What a rank tells its launcher. */
export type RankNote =
  /** It waits for the ring of the run, or has described another ring to `connect`. */
  | { readonly kind: 'connects'; readonly isRunsRing: boolean }
  /** The ring that it waited for has formed. */
  | { readonly kind: 'joined' }
  /** Whether it saves and stops when it is told to. */
  | { readonly kind: 'listens'; readonly isListening: boolean }
  /** It leaves its elastic ring: `close` was called, or the script has ended. */
  | { readonly kind: 'left' }
  /** It was told to stop, all ranks have saved, and it is about to end. */
  | { readonly kind: 'saved' }
  | ({ readonly kind: 'failed' } & RankError);

/** The error that a rank raised, and the rank that it names. */
export interface RankError {
  readonly code: ErrorCode;
  readonly rank?: number | undefined;
}

/** Tells the launcher something. Does nothing in a process that `gradring run` has not started. */
export function tellLauncher(note: RankNote): void {
  const [pid, fd] = (process.env[LAUNCHER_PIPE_VARIABLE] ?? '').split(' ');
  if (Number(pid) !== process.pid) return;
  try {
    writeSync(Number(fd), `${JSON.stringify(note)}\n`);
  } catch {
    // The launcher has ended, and so this process will end too.
  }
}

/** Whether `gradring run` has started this process, or one from which it has its environment. */
export function isLaunched(): boolean {
  return Boolean(process.env[LAUNCHER_PIPE_VARIABLE]);
}

/** The errors that a ring itself raises. If the ring is that of a group, they also have the rank of the run. */
const CODES_OF_RINGS: readonly ErrorCode[] = [
  'ERR_PEER_LOST',
  'ERR_TIMEOUT',
  'ERR_ABORTED',
  'ERR_COLLECTIVE_MISMATCH',
  'ERR_PROTOCOL',
  'ERR_COMM_THREAD',
];

let hasGroups = false;

/** This process is in a group from now on. Then the rank in an error may be that of a group. */
export function noteGroup(): void {
  hasGroups = true;
}

/** Tells the launcher which error this rank has raised. */
export function tellFailure(error: unknown): void {
  if (!(error instanceof GradringError)) return;
  const { code, details } = error;
  const isClear = !hasGroups || CODES_OF_RINGS.includes(code);
  tellLauncher({ kind: 'failed', code, rank: details.rankOfRun ?? (isClear ? details.rank : undefined) });
}

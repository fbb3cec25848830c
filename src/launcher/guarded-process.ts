import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { GUARD_FD, GUARD_FD_VARIABLE, GUARD_FOLDER_VARIABLE } from './rank-guard-shared';

/** What a guarded process is started with. */
export interface GuardedOptions {
  /** A folder that the process removes when this one is gone and has not. */
  readonly socketFolder?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Starts Node in a process group of its own, so that a terminal's Ctrl-C reaches this process alone, which passes it on
 * once. It reads nothing (`/dev/null`), and it ends with this process, however that may end (`rank-guard`), and with it
 * all that it started in its group.
 *
 * @param args Node's own, the script, and the script's.
 * @throws Error of the system, if it says at once that it cannot start it; else there is an `error` event.
 */
export function spawnGuarded(args: readonly string[], { env, socketFolder }: GuardedOptions): ChildProcess {
  const child = spawn(process.execPath, ['--require', path.join(__dirname, 'rank-guard.js'), ...args], {
    env: { ...env, [GUARD_FD_VARIABLE]: String(GUARD_FD), [GUARD_FOLDER_VARIABLE]: socketFolder },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: process.platform !== 'win32', // There it would mean a window for each process.
    windowsHide: true,
  });
  // A process that could not be started, for want of descriptors or memory, has no pipes, nor a list of them.
  const pipes = child.stdio as ChildProcess['stdio'] | undefined;
  const pipe = pipes?.[GUARD_FD] as Readable | undefined;
  pipe?.on('error', () => {}); // The end of the process says nothing that its exit does not.
  child.once('exit', () => pipe?.destroy());
  return child;
}

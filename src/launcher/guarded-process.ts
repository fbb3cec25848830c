import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { GUARD_FD, GUARD_FD_VARIABLE, GUARD_FOLDER_VARIABLE } from './rank-guard-shared';

/** Options of {@link spawnGuarded}. */
export interface GuardedOptions {
  /** A folder that the process removes if this one ends without doing so. */
  readonly socketFolder?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  /** Its working folder. Default: that of this process. */
  readonly folder?: string;
}

/**
 * Starts Node in a process group of its own, so that a terminal's Ctrl-C reaches only this process, which passes it on
 * once. The new process has no input (`/dev/null`). When this process ends, in any way, the new one ends too
 * (`rank-guard`), with everything that it started in its group.
 *
 * @param args The arguments of Node, the script, and the arguments of the script.
 * @throws Error of the system if it reports the failure to start at once. Otherwise there is an `error` event.
 */
export function spawnGuarded(args: readonly string[], { env, folder, socketFolder }: GuardedOptions): ChildProcess {
  const child = spawn(process.execPath, ['--require', path.join(__dirname, 'rank-guard.js'), ...args], {
    cwd: folder,
    env: { ...env, [GUARD_FD_VARIABLE]: String(GUARD_FD), [GUARD_FOLDER_VARIABLE]: socketFolder },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: process.platform !== 'win32', // There each process would get a window.
    windowsHide: true,
  });
  // A process that could not be started because descriptors or memory ran out has no pipes, and no list of them.
  const pipes = child.stdio as ChildProcess['stdio'] | undefined;
  const pipe = pipes?.[GUARD_FD] as Readable | undefined;
  pipe?.on('error', () => {}); // The exit of the process says enough.
  child.once('exit', () => pipe?.destroy());
  return child;
}

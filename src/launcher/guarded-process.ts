import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { ownFile } from '../own-file';
import { GUARD_FD, GUARD_FD_VARIABLE, GUARD_FOLDER_VARIABLE } from './rank-guard-shared';

/** How long a pipe may be silent after its process has ended, before it is given up. */
const SILENCE_MS = 1_000;

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
  const child = spawn(process.execPath, ['--require', ownFile('launcher/rank-guard.js'), ...args], {
    cwd: folder,
    env: { ...env, [GUARD_FD_VARIABLE]: String(GUARD_FD), [GUARD_FOLDER_VARIABLE]: socketFolder },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: process.platform !== 'win32', // There each process would get a window.
    windowsHide: true,
  });
  const pipe = guardPipe(child);
  pipe?.on('error', () => {}); // The exit of the process says enough.
  pipe?.resume();
  child.once('exit', () => giveUpWhenSilent(pipe));
  return child;
}

/**
 * The pipe that {@link spawnGuarded} holds, by which the process may also tell something. Undefined for a process that
 * was started otherwise, or could not be started because descriptors or memory ran out.
 */
export function guardPipe({ stdio }: ChildProcess): Socket | undefined {
  const pipe = (stdio as ChildProcess['stdio'] | undefined)?.[GUARD_FD] as Socket | null | undefined;
  return pipe ?? undefined;
}

/**
 * Destroys a pipe when it is silent. The pipe of a process that has ended ends, too, unless a process that it left
 * behind still has the other end. All that the process itself wrote can be read already, so a silent pipe has no more
 * of it. A pipe whose reader is slow is not silent.
 */
export function giveUpWhenSilent(readable: Readable | null | undefined): void {
  const pipe = readable as Socket | null | undefined;
  if (!pipe || pipe.destroyed) return;
  let { bytesRead } = pipe;
  const look = () => {
    if (pipe.bytesRead === bytesRead && pipe.readableLength === 0) pipe.destroy();
    ({ bytesRead } = pipe);
  };
  const timer = setInterval(() => setImmediate(look), SILENCE_MS); // first Node reads what has arrived
  pipe.once('close', () => clearInterval(timer));
}

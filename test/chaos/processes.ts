import { existsSync, readdirSync, readFileSync } from 'node:fs';

/**
 * The processes of a run, and those that they started: all have the run's folder in their environment. None where the
 * system has no /proc.
 */
export function processesOf(folder: string): number[] {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => environmentOf(pid).includes(`CHAOS_FOLDER=${folder}\0`))
    .map(Number);
}

/** Of a process that is gone, or another user's, or a zombie: nothing. */
function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}

/** Sends a signal to a process that may be gone. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

import { readFileSync } from 'node:fs';

/** Whether a process of this host runs, is stopped by a signal or a debugger, or has ended. */
export function stateOfProcess(pid: number): 'running' | 'stopped' | 'ended' {
  const letter = stateLetter(pid);
  if (letter === undefined) return exists(pid) ? 'running' : 'ended';
  if ('ZX'.includes(letter)) return 'ended'; // a zombie: its parent has not read its exit status yet
  return letter.toLowerCase() === 't' ? 'stopped' : 'running';
}

/** The state as Linux writes it. Undefined if there is no such process, or if this is not Linux. */
function stateLetter(pid: number): string | undefined {
  try {
    return /^\d+ \(.*\) (\w)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // a process of another user
  }
}

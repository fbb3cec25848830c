import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { attempt } from '../attempt';
import { isBetween, isText, isWith } from '../shape';

/** A process, in a way that distinguishes it from later ones with the same number. */
export interface ProcessIdentity {
  readonly host: string;
  /** Where its number has a meaning: a boot of a host, and a namespace of processes (a container). */
  readonly place: string;
  readonly pid: number;
  /** When it began, in ticks since the boot. Empty if the system does not tell. */
  readonly start: string;
}

export function thisProcess(): ProcessIdentity {
  return { host: hostname(), place: placeHere(), pid: process.pid, start: startOf(process.pid) ?? '' };
}

export function isSameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.place === b.place && a.pid === b.pid && a.start === b.start;
}

/** Whether a process runs; `elsewhere` if that cannot be seen from here. */
export function stateOf({ place, pid, start }: ProcessIdentity): 'runs' | 'gone' | 'elsewhere' {
  if (place !== placeHere()) return 'elsewhere';
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return 'gone';
  }
  return (startOf(pid) ?? start) === start ? 'runs' : 'gone';
}

function placeHere(): string {
  const boot = () => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return attempt(() => `${boot()} ${readlinkSync('/proc/self/ns/pid')}`) ?? hostname(); // if it is not Linux
}

/** Undefined if the system does not tell: a process of another user may be hidden. `ended` for a zombie. */
function startOf(pid: number): string | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'latin1'));
  if (stat === undefined) return undefined;
  // The fields after the name, which may hold anything: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' || state === 'X' ? 'ended' : fields[18];
}

export const isIdentity = isWith<ProcessIdentity>({
  ...{ host: isText, place: isText, start: isText },
  pid: isBetween(1, Number.MAX_SAFE_INTEGER),
});

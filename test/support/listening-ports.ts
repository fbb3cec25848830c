import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** How many files and connections a process has open, on Linux; elsewhere 0. */
export function openFiles(pid: number | 'self' = 'self'): number {
  return existsSync(`/proc/${pid}/fd`) ? readdirSync(`/proc/${pid}/fd`).length : 0;
}

/** The TCP ports at which a process listens (Linux). */
export function listeningPorts(pid: number | 'self' = 'self'): number[] {
  const own = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap(file => {
      try {
        return [/socket:\[(\d+)\]/.exec(readlinkSync(`/proc/${pid}/fd/${file}`))?.[1]];
      } catch {
        return []; // closed meanwhile
      }
    }),
  );
  const rows = ['tcp', 'tcp6'].flatMap(name => readFileSync(`/proc/${pid}/net/${name}`, 'utf8').split('\n').slice(1));
  return rows
    .map(row => row.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === '0A' && own.has(inode))
    .map(([, address]) => parseInt(address!.split(':')[1]!, 16));
}

/**
 * Where the links of ranks listen, once their ring steps: those of the rendezvous and of streams are closed a moment
 * after the ranks have met.
 */
export async function linkPorts(pids: readonly number[]): Promise<number[]> {
  for (;;) {
    const ports = pids.flatMap(pid => listeningPorts(pid));
    if (ports.length <= pids.length) return ports;
    await sleep(20);
  }
}

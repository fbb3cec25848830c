import { readdirSync, readFileSync } from 'node:fs';
import { attempt } from '../../attempt';

/** What a process uses of the host. */
export interface ProcessUse {
  /** Its share of the memory: of pages that it shares with others, the part of one. Elsewhere than on Linux: all. */
  readonly memoryBytes: number;
  /** What its memory was at most, shared pages included. */
  readonly peakBytes: number;
  /** Open descriptors, and threads. Undefined elsewhere than on Linux. */
  readonly descriptors: number | undefined;
  readonly threads: number | undefined;
  /** Of all threads, since the process began. */
  readonly cpuSeconds: number;
}

/** That of this process, now. */
export function processUse(): ProcessUse {
  const { user, system } = process.cpuUsage();
  return {
    memoryBytes: kibibytesIn('smaps_rollup', 'Pss') ?? process.memoryUsage.rss(),
    peakBytes: process.resourceUsage().maxRSS * 1024,
    descriptors: attempt(() => readdirSync('/proc/self/fd').length),
    threads: attempt(() => readdirSync('/proc/self/task').length),
    cpuSeconds: (user + system) / 1e6,
  };
}

/** A line of a file in /proc/self, in bytes. */
function kibibytesIn(file: string, name: string): number | undefined {
  const text = attempt(() => readFileSync(`/proc/self/${file}`, 'utf8')) ?? '';
  const kibibytes = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1];
  return kibibytes === undefined ? undefined : 1024 * Number(kibibytes);
}

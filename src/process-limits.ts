import { readFileSync } from 'node:fs';
import { attempt } from './attempt';

/**
 * A limit of this process, by its name in /proc/self/limits: the soft limit, which is the one that the system enforces.
 * Infinity if there is none, undefined if the system does not say it.
 */
export function processLimit(name: 'Max open files' | 'Max address space'): number | undefined {
  const limits = attempt(() => readFileSync('/proc/self/limits', 'utf8')) ?? '';
  const limit = new RegExp(`^${name}\\s+(\\S+)`, 'm').exec(limits)?.[1];
  return limit === undefined ? undefined : limit === 'unlimited' ? Infinity : Number(limit);
}

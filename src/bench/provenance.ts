import { availableParallelism, cpus } from 'node:os';
import { readVersion } from '../version';

/** Where the figures in a file come from. */
export interface Provenance {
  readonly version: string;
  readonly command: string;
  readonly date: string;
  readonly machine: { readonly processor: string; readonly cores: number; readonly node: string };
}

/** That of what this process measures. */
export function provenanceOf(startedAt: Date): Provenance {
  return {
    version: readVersion(),
    command: `gradring ${process.argv.slice(2).join(' ')}`,
    date: startedAt.toISOString(),
    machine: { processor: cpus()[0]?.model ?? 'unknown', cores: availableParallelism(), node: process.version },
  };
}

/** The same as names and values, in words. */
export function provenanceFacts({ command, date, machine, version }: Provenance): [name: string, words: string][] {
  return [
    ['command', command],
    ['date', date],
    ['machine', `${machine.cores} cores, ${machine.processor}, Node ${machine.node}, gradring ${version}`],
  ];
}

import type { Writable } from 'node:stream';
import { launch } from '../../launcher/launch';
import { ON_THIS_HOST } from '../../launcher/launcher-task';
import { lineStream } from '../../lines';
import { ownFile } from '../../own-file';
import type { Plan } from './collective-benchmark';
import { runInNetlab } from './netlab';
import type { CollectiveRow } from './row';
import type { RunListener, RunProgress } from './run-rank';

const ENTRY = ownFile('bench/collectives/rank-entry.js');

/** Where the ranks run. */
export interface RanksPlace {
  readonly ranks: number;
  /** The rate of the links in a lab of network namespaces, in the format of tc. Undefined for no lab. */
  readonly netlabRate: string | undefined;
  /** The target of error output. */
  readonly stderr: NodeJS.WritableStream;
}

/**
 * Starts the ranks of a run. Resolves when all have ended, with the exit code: 0, 130 after SIGINT, or that of the
 * first rank that failed. No rank outlives this process.
 */
export async function startRanks(
  plan: Plan,
  { ranks, netlabRate, stderr }: RanksPlace,
  listener: RunListener,
): Promise<number> {
  const args = [JSON.stringify(plan)];
  const stdout = eventStream(listener, line => stderr.write(`${line}\n`));
  if (netlabRate !== undefined) {
    return runInNetlab({ ranks, rate: netlabRate, command: [process.execPath, ENTRY, ...args], stdout, stderr });
  }
  return (await launch({ ...ON_THIS_HOST, ranks, script: ENTRY, args, prefix: false, stdout, stderr })).exitCode;
}

/** What rank 0 writes for the process that started it, one on each line. */
export type RankEvent = { readonly row: CollectiveRow } | { readonly progress: RunProgress };

/** Reads the standard output of the ranks. Events go to the listener, other lines to `otherwise`. */
export function eventStream(listener: RunListener, otherwise: (line: string) => void): Writable {
  return lineStream(line => {
    if (!line.startsWith('{')) return otherwise(line);
    const event = JSON.parse(line) as RankEvent;
    if ('row' in event) listener.row(event.row);
    else listener.progress(event.progress);
  });
}

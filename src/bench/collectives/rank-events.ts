import type { Writable } from 'node:stream';
import { lineStream } from '../../lines';
import type { CollectiveRow } from './row';
import type { RunListener, RunProgress } from './run-rank';

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

import { Writable } from 'node:stream';
import type { CollectiveRow } from './row';
import type { RunListener, RunProgress } from './run-rank';

/** What rank 0 writes for the process that started it, one on each line. */
export type RankEvent = { readonly row: CollectiveRow } | { readonly progress: RunProgress };

/** Reads the standard output of the ranks. Events go to the listener, other lines to `otherwise`. */
export function eventStream(listener: RunListener, otherwise: (line: string) => void): Writable {
  let rest = '';
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop()!;
      for (const line of lines) {
        if (!line.startsWith('{')) {
          otherwise(line);
          continue;
        }
        const event = JSON.parse(line) as RankEvent;
        if ('row' in event) listener.row(event.row);
        else listener.progress(event.progress);
      }
      done();
    },
  });
}

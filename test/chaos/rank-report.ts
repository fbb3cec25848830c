import { openSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Fact } from './report-file';

let file: number | undefined;

/**
 * Reports something to the harness: a line of JSON in the rank's file, which is there even if the process dies the next
 * moment.
 */
export function report(fact: Omit<Fact, 'at'>): void {
  file ??= openSync(path.join(process.env.CHAOS_FOLDER!, reportName()), 'a');
  writeSync(file, `${JSON.stringify({ ...fact, at: Date.now() })}\n`);
}

/** A process that is started with the rank of another has a file of its own, and so has the launcher. */
function reportName(): string {
  if (process.env.RANK === undefined) return 'launcher.jsonl';
  return `${process.env.CHAOS_LATE === undefined ? '' : 'late-'}rank-${process.env.RANK}.jsonl`;
}

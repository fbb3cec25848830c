import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from '../errors';
import { namingEvents, type TraceEvent } from './trace-event';

/** What the threads of a rank need to record on one timeline. It may be posted from thread to thread. */
export interface TimelineFile {
  readonly path: string;
  readonly rank: number;
  readonly worldSize: number;
  /** What to add to `process.hrtime`, in microseconds, to have the time since 1970: all threads must agree. */
  readonly clockOrigin: number;
  /** One word, 1 when the file could not be written to and the rank has said so. */
  readonly stopped: Int32Array;
}

const FILE_NAME = /^rank-(\d+)\.json$/;

/** The rank whose file has that name, if it is one. */
export function rankOfFile(name: string): number | undefined {
  const rank = FILE_NAME.exec(name)?.[1];
  return rank === undefined ? undefined : Number(rank);
}

/**
 * Begins a rank's file, `rank-0.json`, in a folder that is made where it is missing. Of an older run, this rank's file
 * is replaced, and those of ranks that the ring does not have are removed.
 *
 * @throws GradringError `ERR_TIMELINE` if that cannot be done.
 */
export function createTimelineFile(directory: string, rank: number, worldSize: number): TimelineFile {
  const file = path.resolve(directory, `rank-${rank}.json`);
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    for (const name of readdirSync(path.dirname(file))) {
      const other = rankOfFile(name);
      if (other !== undefined && (other === rank || other >= worldSize)) rmSync(path.join(path.dirname(file), name));
    }
    writeFileSync(file, `[\n${namingEvents(rank).map(lineOf).join('')}`, { flag: 'wx' });
  } catch (error) {
    const words = `The timeline cannot be written to ${file}: ${(error as Error).message}.`;
    throw new GradringError('ERR_TIMELINE', words, { rank }, { cause: error });
  }
  const clockOrigin = Math.round((performance.timeOrigin + performance.now()) * 1000 - monotonicMicroseconds());
  return { path: file, rank, worldSize, clockOrigin, stopped: new Int32Array(new SharedArrayBuffer(4)) };
}

/** An event as a line of a file. The format's arrays need neither the end nor, before it, an event without a comma. */
export function lineOf(event: TraceEvent): string {
  return `${JSON.stringify(event)},\n`;
}

/** The same in all threads of a process, and never set. */
export function monotonicMicroseconds(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

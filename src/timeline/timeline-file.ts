import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from '../errors';
import { fileModeIn, PRIVATE_FOLDER } from '../file-mode';
import { monotonicMicroseconds } from '../observer';
import { namingEvents, type TraceEvent } from './trace-event';

/** What the threads of a rank need to record one timeline. It can be posted between threads. */
export interface TimelineFile {
  readonly path: string;
  readonly rank: number;
  readonly worldSize: number;
  /** The time since 1970 minus `process.hrtime`, in microseconds. All threads must use the same value. */
  readonly clockOrigin: number;
  /** One word: 1 after the file could not be written and the rank has reported it. */
  readonly stopped: Int32Array;
}

const FILE_NAME = /^rank-(\d+)\.json$/;

/** The rank whose timeline has this file name; undefined for other names. */
export function rankOfFile(name: string): number | undefined {
  const rank = FILE_NAME.exec(name)?.[1];
  return rank === undefined ? undefined : Number(rank);
}

/**
 * Creates the file of a rank, such as `rank-0.json`, in a folder, which is created if it is missing. A file of an older
 * run is replaced, and older files of ranks that the ring does not have are removed.
 *
 * @throws GradringError `ERR_TIMELINE` if that is not possible.
 */
export function createTimelineFile(directory: string, rank: number, worldSize: number): TimelineFile {
  const folder = path.resolve(directory);
  const file = path.join(folder, `rank-${rank}.json`);
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER });
    for (const name of readdirSync(folder)) {
      const other = rankOfFile(name);
      const isOld = other !== undefined && (other === rank || other >= worldSize);
      if (isOld) rmSync(path.join(folder, name), { force: true }); // another rank may have been faster
    }
    writeFileSync(file, `[\n${namingEvents(rank).map(lineOf).join('')}`, { flag: 'wx', mode: fileModeIn(folder) });
  } catch (error) {
    const words = `The timeline cannot be written to ${file}: ${(error as Error).message}.`;
    throw new GradringError('ERR_TIMELINE', words, { rank }, { cause: error });
  }
  const clockOrigin = Math.round((performance.timeOrigin + performance.now()) * 1000 - monotonicMicroseconds());
  return { path: file, rank, worldSize, clockOrigin, stopped: new Int32Array(new SharedArrayBuffer(4)) };
}

/** An event as a line of a file. The format allows an array without an end, and a comma after the last event. */
export function lineOf(event: TraceEvent): string {
  return `${JSON.stringify(event)},\n`;
}

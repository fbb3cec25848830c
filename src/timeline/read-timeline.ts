import { createReadStream, readdirSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from '../errors';
import { rankOfFile } from './timeline-file';
import { RING_EVENT, type TraceEvent } from './trace-event';

/** A rank's file, and what it says of itself. */
export interface RankTimeline {
  readonly path: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly ringId: string;
}

/**
 * The timelines in a folder, by rank: all of one ring, though some may be missing.
 *
 * @throws GradringError `ERR_TIMELINE` if there are none, or they are of several runs.
 */
export async function findTimelines(directory: string): Promise<RankTimeline[]> {
  const ranks = namesIn(directory).flatMap(name => rankOfFile(name) ?? []);
  if (ranks.length === 0) throw failure(`There is no timeline, rank-0.json or another rank's, in ${directory}.`);
  const found: RankTimeline[] = [];
  for (const rank of ranks.sort((a, b) => a - b)) {
    const timeline = await identify(path.join(directory, `rank-${rank}.json`), rank);
    const first = found[0] ?? timeline;
    if (timeline.ringId !== first.ringId || timeline.worldSize !== first.worldSize) {
      throw failure(`${first.path} and ${timeline.path} are of different runs. Remove those of the older one.`);
    }
    found.push(timeline);
  }
  return found;
}

/**
 * The events of a file. A last line that is cut short, as a crash may leave it, is passed over.
 *
 * @throws GradringError `ERR_TIMELINE`, naming file and line, for any other line that is none of ours, and if the file cannot be read.
 */
export async function* readTimeline(file: string): AsyncGenerator<TraceEvent> {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    if (number === 1 && line === '[') continue;
    const event = parse(line);
    if (event === undefined) throw failure(`${file} is damaged: line ${number} is no event of a timeline.`);
    yield event;
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = '';
  try {
    for await (const chunk of createReadStream(file, { encoding: 'utf8' })) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop()!;
      yield* lines;
    }
  } catch (error) {
    throw failure(`${file} cannot be read: ${(error as Error).message}.`);
  }
}

/** Any error about timelines. */
export function failure(message: string): GradringError {
  return new GradringError('ERR_TIMELINE', message);
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    throw failure(`The folder of timelines cannot be read: ${(error as Error).message}.`);
  }
}

async function identify(file: string, rank: number): Promise<RankTimeline> {
  for await (const event of readTimeline(file)) {
    if (event.name !== RING_EVENT) continue;
    const { ring, rank: written, worldSize } = event.args;
    if (written !== rank) throw failure(`${file} is the timeline of rank ${written}.`);
    return { path: file, rank, worldSize: Number(worldSize), ringId: String(ring) };
  }
  throw failure(`${file} tells of no ring: that rank never joined one.`);
}

function parse(line: string): TraceEvent | undefined {
  try {
    const event = JSON.parse(line.replace(/,$/, '')) as Partial<TraceEvent> | null;
    return isEvent(event) ? event : undefined;
  } catch {
    return undefined;
  }
}

function isEvent(event: Partial<TraceEvent> | null): event is TraceEvent {
  if (typeof event?.name !== 'string' || typeof event.args !== 'object' || event.args === null) return false;
  if (![event.pid, event.tid].every(Number.isInteger)) return false;
  return event.ph === 'M' || (event.ph === 'X' && [event.ts, event.dur].every(Number.isInteger));
}

import { createReadStream, readdirSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from '../errors';
import { parseEvent, parseRing, type RingOfTimeline } from './parse-event';
import { rankOfFile } from './timeline-file';
import type { TraceEvent } from './trace-event';

/** A rank's file, and what it says of itself. */
export interface RankTimeline extends RingOfTimeline {
  readonly path: string;
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
 * @throws GradringError `ERR_TIMELINE`, naming file and line, for any other line that is none of ours, and if the file
 *   cannot be read.
 */
export async function* readTimeline(file: string): AsyncGenerator<TraceEvent> {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    if (number === 1 && line === '[') continue;
    const event = parseEvent(line);
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
    const ring = parseRing(event);
    if (ring === undefined) continue;
    if (ring.rank !== rank) throw failure(`${file} is the timeline of rank ${ring.rank}.`);
    return { path: file, ...ring };
  }
  throw failure(`${file} tells of no ring: that rank never joined one.`);
}

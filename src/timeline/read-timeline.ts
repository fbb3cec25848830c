import { createReadStream, readdirSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from '../errors';
import { Lines } from '../lines';
import { parseEvent, parseRing, type RingOfTimeline } from './parse-event';
import { rankOfFile } from './timeline-file';
import type { TraceEvent } from './trace-event';

/** An event has some hundred. */
const LONGEST_LINE = 2 ** 20;

/** The file of a rank, and the ring that it belongs to. */
export interface RankTimeline extends RingOfTimeline {
  readonly path: string;
}

/**
 * The timelines in a folder, by rank. All belong to one ring; some may be missing.
 *
 * @throws GradringError `ERR_TIMELINE` if there are none, or if they belong to several runs.
 */
export async function findTimelines(directory: string): Promise<RankTimeline[]> {
  const ranks = namesIn(directory).flatMap(name => rankOfFile(name) ?? []);
  if (ranks.length === 0) throw failure(`${directory} has no timeline, such as rank-0.json.`);
  const found: RankTimeline[] = [];
  for (const rank of ranks.sort((a, b) => a - b)) {
    const timeline = await identify(path.join(directory, `rank-${rank}.json`), rank);
    const first = found[0] ?? timeline;
    if (timeline.ringId !== first.ringId || timeline.worldSize !== first.worldSize) {
      throw failure(`${first.path} and ${timeline.path} belong to different runs. Remove the files of the older run.`);
    }
    found.push(timeline);
  }
  return found;
}

/**
 * The events of a file. The last line is ignored if it is incomplete, because a crash may leave such a line.
 *
 * @throws GradringError `ERR_TIMELINE`, with file and line, for any other line that is no event, and if the file cannot
 *   be read.
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
  const lines = new Lines(LONGEST_LINE);
  try {
    for await (const chunk of createReadStream(file, { encoding: 'utf8' })) yield* lines.push(chunk as string);
  } catch (error) {
    if (error instanceof RangeError) throw failure(`${file} is no timeline: it has ${error.message}.`);
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
  throw failure(`${file} has no ring: its rank never joined one.`);
}

import { closeSync, openSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileModeIn } from '../file-mode';
import { type ClockOffset, clockOffsets, RankFrames } from './clock-offsets';
import { failure, findTimelines, type RankTimeline, readTimeline } from './read-timeline';
import { type RankTotals, SpanTotals } from './span-totals';
import { ELASTIC_RINGS, type TraceEvent } from './trace-event';

/** The result of a merge. */
export interface Merged {
  readonly output: string;
  /** Why the result is less than it could be, in words. */
  readonly warnings: readonly string[];
  readonly ranks: readonly RankTotals[];
}

const CHUNK_LENGTH = 1024 * 1024;

/**
 * Merges the timelines of the ranks of a ring into one trace, a JSON array, in which all times are those of rank 0's
 * clock: see {@link clockOffsets}. It reads each file twice, and keeps only the times of frames in memory.
 *
 * @throws GradringError `ERR_TIMELINE` if there are no timelines, if they are damaged or belong to several runs, or if
 *   the output cannot be written.
 */
export async function mergeTimelines(directory: string, output: string): Promise<Merged> {
  const timelines = await findTimelines(directory);
  if (reporting(output, () => timelines.some(timeline => isSameFile(timeline.path, output)))) {
    throw failure(`The output, ${output}, is one of the files that are merged: name another file.`);
  }
  const frames: RankFrames[] = [];
  const totals: SpanTotals[] = [];
  for (const { path: file, rank } of timelines) {
    const ofRank = { frames: new RankFrames(), totals: new SpanTotals(rank) };
    for await (const event of readTimeline(file)) {
      ofRank.frames.add(event);
      ofRank.totals.add(event);
    }
    frames.push(ofRank.frames);
    totals.push(ofRank.totals);
  }
  const { offsets, warnings } = offsetsOf(timelines, frames);
  await write(timelines, offsets, output);
  const ranks = timelines.map(({ rank }, i): RankTotals => {
    const { durationMs, spansMs } = totals[i]!;
    return { rank, durationMs, clockOffsetUs: offsets === undefined ? null : Math.round(offsets[i]!.mean), spansMs };
  });
  return { output, warnings, ranks };
}

function offsetsOf(
  timelines: readonly RankTimeline[],
  frames: readonly RankFrames[],
): { offsets: ClockOffset[] | undefined; warnings: string[] } {
  const { worldSize, ringId } = timelines[0]!;
  const asTheyAre = 'The clocks of the ranks are not corrected.';
  if (ringId.startsWith(ELASTIC_RINGS)) {
    // The clocks are compared by the frames of one ring, but this run had several.
    const hosts = new Set(timelines.map(({ host }) => host)).size;
    const warnings = hosts === 1 ? [] : [`The ranks of this elastic run were on ${hosts} hosts. ${asTheyAre}`];
    return { offsets: undefined, warnings };
  }
  const present = new Set(timelines.map(({ rank }) => rank));
  const missing = Array.from({ length: worldSize }, (_, rank) => rank).filter(rank => !present.has(rank));
  if (missing.length > 0) {
    const words = `The ring has ${worldSize} ranks, but the timeline of rank ${missing.join(', ')} is missing. ${asTheyAre}`;
    return { offsets: undefined, warnings: [words] };
  }
  if (worldSize === 1) return { offsets: undefined, warnings: [] };
  const offsets = clockOffsets(frames);
  return { offsets, warnings: offsets === undefined ? [`No frame went around the ring. ${asTheyAre}`] : [] };
}

async function write(
  timelines: readonly RankTimeline[],
  offsets: readonly ClockOffset[] | undefined,
  output: string,
): Promise<void> {
  const descriptor = reporting(output, () => openSync(output, 'w', fileModeIn(path.dirname(output))));
  let chunk = '[';
  const flush = () => {
    reporting(output, () => writeFileSync(descriptor, chunk));
    chunk = '';
  };
  try {
    let separator = '\n';
    for (const [i, { path: file }] of timelines.entries()) {
      for await (const event of readTimeline(file)) {
        chunk += separator + JSON.stringify(corrected(event, offsets?.[i]));
        separator = ',\n';
        if (chunk.length >= CHUNK_LENGTH) flush();
      }
    }
    chunk += '\n]\n';
    flush();
  } finally {
    closeSync(descriptor);
  }
}

/** Also by another name, through a link. */
function isSameFile(timeline: string, output: string): boolean {
  const [one, other] = [statSync(timeline), statSync(output, { throwIfNoEntry: false })];
  return one.dev === other?.dev && one.ino === other.ino;
}

/** Start and end are corrected separately, so that spans nest as before. */
function corrected(event: TraceEvent, offset: ClockOffset | undefined): TraceEvent {
  if (event.ph !== 'X' || offset === undefined) return event;
  const ts = offset.correct(event.ts);
  return { ...event, ts, dur: offset.correct(event.ts + event.dur) - ts };
}

function reporting<T>(output: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw failure(`The merged timeline cannot be written to ${output}: ${(error as Error).message}.`);
  }
}

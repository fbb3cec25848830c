import { clockOffsets, RankFrames } from '../../src/timeline/clock-offsets';
import { parseEvent, parseRing } from '../../src/timeline/parse-event';
import { SpanTotals } from '../../src/timeline/span-totals';
import { RING_EVENT, threadNumber, type TraceEvent } from '../../src/timeline/trace-event';
import type { Target } from './fuzz';
import { mutateBytes } from './mutate-bytes';
import { mutateJson } from './mutate-json';
import { isCount } from './payload-checker';
import { demand } from './refusal';

const RANKS = 2;
const START = 1_700_000_000_000_000;

/** The files of a ring of two, one line after the other: a line is of the rank that its process number tells. */
function linesOf(frames: number, everyMicroseconds: number): string[] {
  const ranks = Array.from({ length: RANKS }, (_, rank) => {
    const tid = threadNumber(rank, 'comm');
    const place = { pid: threadNumber(rank, 'training'), tid };
    const ring = { ph: 'M', name: RING_EVENT, ...place, args: { ring: 'abc', rank, worldSize: RANKS } };
    const spans = Array.from({ length: frames }, (_, sequence) => {
      const ts = START + sequence * everyMicroseconds;
      const args = { sequence, origin: rank, part: 0, way: 'right', bytes: 7 };
      const from = { ...args, origin: 1 - rank };
      return [
        { ph: 'X', name: 'send', cat: 'span', ts, dur: 3, ...place, args },
        { ph: 'X', name: 'wait', cat: 'span', ts: ts + 3, dur: 9, ...place, args: from },
        { ph: 'X', name: 'receive', cat: 'span', ts: ts + 12 + 50 * rank, dur: 1, ...place, args: from },
      ];
    });
    return [ring, ...spans.flat()];
  });
  return ranks.flat().map(event => JSON.stringify(event));
}

/** Lines of timelines that somebody gives to `gradring timeline`. */
export const timelineTarget: Target = {
  name: 'timeline',
  seeds: () => [linesOf(1, 1000), linesOf(2, 60_000_000), linesOf(2, 1)].map(lines => ({ bytes: Buffer.from(lines.join(',\n')) })),
  mutate: (random, entry, other) => {
    const lines = Buffer.from(entry.bytes).toString('utf8').split('\n');
    const at = random.below(lines.length);
    const event = random.below(5) === 0 ? undefined : parseEvent(lines[at]);
    if (event === undefined) return { bytes: mutateBytes(random, entry.bytes, other.bytes) };
    return { bytes: Buffer.from(lines.with(at, `${JSON.stringify(mutateJson(random, event))},`).join('\n')) };
  },
  run: bytes => {
    const frames = Array.from({ length: RANKS }, () => new RankFrames());
    const totals = frames.map((_, rank) => new SpanTotals(rank));
    const times = [START];
    let damaged = 0;
    for (const line of Buffer.from(bytes).toString('utf8').split('\n')) {
      const event = parseEvent(line);
      if (event === undefined) {
        damaged++;
        continue;
      }
      demandSane(event);
      const rank = event.pid >= threadNumber(1, 'training') ? 1 : 0;
      frames[rank].add(event);
      totals[rank].add(event);
      if (event.ph === 'X') times.push(event.ts);
    }
    const offsets = clockOffsets(frames);
    for (const offset of offsets ?? []) {
      demand(Number.isFinite(offset.mean), 'The mean of a clock offset is none.');
      for (const time of times) demand(Number.isFinite(offset.correct(time)), 'A corrected time is none.');
    }
    for (const { durationMs, spansMs } of totals) {
      demand([durationMs, ...Object.values(spansMs)].every(Number.isFinite), 'A total is none.');
    }
    const found = offsets === undefined ? 'without offsets' : 'with offsets';
    return { outcome: `accepted: ${found}, ${damaged === 0 ? 'whole' : 'with damaged lines'}` };
  },
}; // prettier-ignore

function demandSane(event: TraceEvent): void {
  const { ph, name, pid, tid, args } = event;
  demand((ph === 'M' || ph === 'X') && typeof name === 'string', 'The event is none.');
  demand(Number.isSafeInteger(pid) && Number.isSafeInteger(tid), 'The thread is none.');
  demand(ph === 'M' || (Number.isSafeInteger(event.ts) && Number.isSafeInteger(event.dur)), 'The time is none.');
  for (const value of Object.values(args)) demand(['string', 'number'].includes(typeof value), 'An argument is none.');
  const ring = parseRing(event);
  if (ring === undefined) return;
  demand(isCount(ring.worldSize, 65_535) && isCount(ring.rank, ring.worldSize - 1), 'The ring is none.');
}

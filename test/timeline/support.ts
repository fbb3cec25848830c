import { readFileSync } from 'node:fs';
import type { SpanEvent, TraceEvent } from '../../src/timeline/trace-event';

/** A rank's file, as a viewer reads it: the last comma and the bracket's end may be missing. */
export function readEvents(file: string): TraceEvent[] {
  return JSON.parse(readFileSync(file, 'utf8').replace(/,?\n$/, '') + ']') as TraceEvent[];
}

export function spansOf(events: readonly TraceEvent[]): SpanEvent[] {
  return events.filter((event): event is SpanEvent => event.ph === 'X');
}

/** Pairs of spans of one thread of which one begins within the other, and ends after it. */
export function overlaps(spans: readonly SpanEvent[]): [SpanEvent, SpanEvent][] {
  const found: [SpanEvent, SpanEvent][] = [];
  for (const tid of new Set(spans.map(span => span.tid))) {
    const open: SpanEvent[] = [];
    const ofThread = spans.filter(span => span.tid === tid).sort((a, b) => a.ts - b.ts || b.dur - a.dur);
    for (const span of ofThread) {
      while (open.length > 0 && open.at(-1)!.ts + open.at(-1)!.dur <= span.ts) open.pop();
      const outer = open.at(-1);
      if (outer !== undefined && outer.ts + outer.dur < span.ts + span.dur) found.push([outer, span]);
      open.push(span);
    }
  }
  return found;
}

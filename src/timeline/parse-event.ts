import { attempt } from '../attempt';
import { MAX_WORLD_SIZE } from '../environment/variables';
import { RING_EVENT, type TraceEvent } from './trace-event';

/** The ring of a timeline, as the timeline says. */
export interface RingOfTimeline {
  readonly ringId: string;
  readonly rank: number;
  readonly worldSize: number;
  /** Ranks with the same have one clock. */
  readonly host: string;
}

/**
 * The event in a line of a timeline; undefined if gradring did not write such an event. Its times, and their sum, are
 * safe integers.
 */
export function parseEvent(line: string): TraceEvent | undefined {
  const event = attempt(() => JSON.parse(line.replace(/,$/, '')) as Partial<TraceEvent> | null);
  return isEvent(event) ? event : undefined;
}

/** The ring that an event describes; undefined if it describes something else, or an impossible ring. */
export function parseRing({ name, args }: TraceEvent): RingOfTimeline | undefined {
  if (name !== RING_EVENT) return undefined;
  const { ring, rank, worldSize, host = '' } = args;
  const isPlace = isCount(worldSize, MAX_WORLD_SIZE) && isCount(rank, worldSize - 1);
  const isRing = isPlace && typeof ring === 'string' && typeof host === 'string';
  return isRing ? { ringId: ring, rank, worldSize, host } : undefined;
}

function isEvent(event: Partial<TraceEvent> | null | undefined): event is TraceEvent {
  if (typeof event?.name !== 'string' || typeof event.args !== 'object' || event.args === null) return false;
  if (!Object.values(event.args).every(value => typeof value === 'string' || typeof value === 'number')) return false;
  if (![event.pid, event.tid].every(Number.isSafeInteger)) return false;
  if (event.ph === 'M') return true;
  return event.ph === 'X' && [event.ts, event.dur, event.ts! + event.dur!].every(Number.isSafeInteger);
}

function isCount(value: string | number | undefined, most: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most;
}

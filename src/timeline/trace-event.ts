import type { SpanArguments } from '../observer';

/**
 * The threads of a rank, in the order in which they are shown. The comm thread sends while it waits, and does both in
 * both directions around the ring. So it has several rows, for what it does at the same time.
 */
export const THREAD_NAMES = ['training', 'comm', 'comm, to the left', 'sends', 'sends, to the left'] as const;

export type ThreadName = (typeof THREAD_NAMES)[number];

/** A span of the trace-event format: `ph` "X" is a complete event. Times are whole microseconds since 1970. */
export interface SpanEvent {
  readonly ph: 'X';
  readonly name: string;
  /** A span of a kind has the first category, and a collective, which encloses such spans, the second. */
  readonly cat: 'span' | 'collective';
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: SpanArguments;
}

/** Describes a process, a thread or the ring. `ph` "M" is a metadata event. */
export interface MetadataEvent {
  readonly ph: 'M';
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args: SpanArguments;
}

export type TraceEvent = SpanEvent | MetadataEvent;

/** The metadata event that tells {@link mergeTimelines} whose file it reads. Viewers ignore it. */
export const RING_EVENT = 'gradring_ring';

/** The prefix of the name that all rings of an elastic run share. */
export const ELASTIC_RINGS = 'elastic ';

/**
 * The number of a process for viewers, which need positive integers. No two threads of a ring have the same number, and
 * the training thread has the number of its process, like every main thread.
 */
export function processNumber(rank: number): number {
  return THREAD_NAMES.length * rank + 1;
}

export function threadNumber(rank: number, thread: ThreadName): number {
  return processNumber(rank) + THREAD_NAMES.indexOf(thread);
}

/** The events that name a rank and its threads, and put them in order. */
export function namingEvents(rank: number): MetadataEvent[] {
  const pid = processNumber(rank);
  const event = (tid: number, name: string, args: SpanArguments): MetadataEvent => ({ ph: 'M', name, pid, tid, args });
  return [
    event(pid, 'process_name', { name: `rank ${rank}` }),
    event(pid, 'process_sort_index', { sort_index: rank }),
    ...THREAD_NAMES.flatMap((thread, i) => [
      event(pid + i, 'thread_name', { name: thread }),
      event(pid + i, 'thread_sort_index', { sort_index: i }),
    ]),
  ];
}

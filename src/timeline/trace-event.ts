/** What a rank spends its time with: the names of spans, beside those of the collectives that enclose them. */
export const SPAN_KINDS = [
  /** The user's thread copies gradients into the arenas. */
  'copy',
  /** Gradients are accumulated, the largest selected, and taken from the residuals at the end. */
  'compress',
  /** Entries become a payload. */
  'encode',
  /** A frame of this rank's goes to a neighbour, until it is handed over. */
  'send',
  /** A frame has come: it begins when the frame leaves the link. */
  'receive',
  /** A received frame goes on. */
  'forward',
  /** Payloads are decoded, added and averaged. */
  'decode',
  /** The user's thread applies the update. */
  'apply',
  /** The comm thread waits for a frame; the user's thread sleeps until the comm thread answers. */
  'wait',
] as const;

export type SpanKind = (typeof SPAN_KINDS)[number];

/**
 * The threads of a rank, in the order in which they are shown. The comm thread sends while it waits, and both with
 * frames that go either way round the ring: what it does at the same time stands side by side.
 */
export const THREAD_NAMES = ['training', 'comm', 'comm, to the left', 'sends', 'sends, to the left'] as const;

export type ThreadName = (typeof THREAD_NAMES)[number];

/** What a span tells beside its time. */
export type SpanArguments = Readonly<Record<string, string | number>>;

/** A span of the trace-event format: `ph` "X" is a complete event. Times are whole microseconds since 1970. */
export interface SpanEvent {
  readonly ph: 'X';
  readonly name: string;
  /** The kind of a span is its name; what encloses others has this category. */
  readonly cat: 'span' | 'collective';
  readonly ts: number;
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: SpanArguments;
}

/** Tells of a process, a thread or the ring; `ph` "M" is a metadata event. */
export interface MetadataEvent {
  readonly ph: 'M';
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args: SpanArguments;
}

export type TraceEvent = SpanEvent | MetadataEvent;

/** The metadata event by which {@link mergeTimelines} knows whose file it reads. Viewers pass it over. */
export const RING_EVENT = 'gradring_ring';

/** Begins the name of the rings of an elastic run, which share one. All its ranks are on one host. */
export const ELASTIC_RINGS = 'elastic ';

/**
 * Numbers for viewers, which want whole positive ones: no two threads of a ring share one, and the training thread has
 * that of its process, as main threads do.
 */
export function processNumber(rank: number): number {
  return THREAD_NAMES.length * rank + 1;
}

/** See {@link processNumber}. */
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

/** What a rank spends its time on: the names of spans. Collectives, which enclose spans, have names of their own. */
export const SPAN_KINDS = [
  /** The main thread copies gradients into the arenas. */
  'copy',
  /** Gradients are accumulated, the largest ones are selected, and at the end subtracted from the residuals. */
  'compress',
  /** Entries become a payload. */
  'encode',
  /** A frame of this rank is sent to a neighbour. */
  'send',
  /** A frame is received. The span begins when the frame leaves the link. */
  'receive',
  /** A received frame is sent on. */
  'forward',
  /** Payloads are decoded, added and averaged. */
  'decode',
  /** The main thread applies the update. */
  'apply',
  /** The comm thread waits for a frame, or the main thread sleeps until the comm thread answers. */
  'wait',
] as const;

export type SpanKind = (typeof SPAN_KINDS)[number];

/** What a span says beside its time. */
export type SpanArguments = Readonly<Record<string, string | number>>;

/** Something that has ended. */
export interface Span {
  /** A collective encloses spans of the other kinds. */
  readonly kind: SpanKind | 'collective';
  /** The kind, or the call of a collective. */
  readonly name: string;
  /** Microseconds of a clock that is the same in all threads of a process, and is never set. */
  readonly start: number;
  readonly end: number;
  readonly args: SpanArguments;
}

/** Hears what a thread does. */
export interface Listener {
  /** The spans that it wants. The others cost nothing. */
  readonly kinds: readonly Span['kind'][];
  onSpan(span: Span): void;
  /** A ring has formed. This rank is on that host, whose clock it has. */
  onRing?(ringId: string, host: string): void;
  close?(): void;
}

/** What is counted (it only increases) and gauged (it has a value now). */
export const METRICS = [
  /** Bytes of headers and bodies in all rings of this rank, without ZeroMQ's framing. Counted. */
  'bytesSent',
  /** The same. */
  'bytesReceived',
  /** The collectives that have ended, also by an error. Counted. */
  'collectives',
  /** 1 while a collective is under way. A gauge. */
  'underWay',
  /** The ranks of the ring. A gauge. */
  'worldSize',
  /** Messages of the rendezvous, if this rank holds it, and their bytes without ZeroMQ's framing. Counted. */
  'rendezvousMessagesSent',
  'rendezvousBytesSent',
  'rendezvousMessagesReceived',
  'rendezvousBytesReceived',
] as const;

export type Metric = (typeof METRICS)[number];

const INDEX = Object.fromEntries(METRICS.map((metric, i) => [metric, i])) as Record<Metric, number>;

/**
 * Observes one thread: tells its listeners of spans, and holds the metrics of the rank, which its threads share. They
 * may be read at any time, also while a collective is under way. Spans that nobody wants, and metrics, cost next to
 * nothing.
 */
export class Observer {
  private readonly listeners = new Map<Span['kind'], Listener[]>();
  private readonly all = new Set<Listener>();

  /** @param shared From {@link sharedMetrics}. */
  constructor(readonly shared = sharedMetrics()) {}

  /** Adds a listener. Returns what removes it. */
  listen(listener: Listener): () => void {
    this.all.add(listener);
    this.update();
    return () => {
      this.all.delete(listener);
      this.update();
    };
  }

  count(metric: Metric, amount = 1): void {
    this.shared[INDEX[metric]]! += amount;
  }

  gauge(metric: Metric, value: number): void {
    this.shared[INDEX[metric]] = value;
  }

  read(metric: Metric): number {
    return this.shared[INDEX[metric]]!;
  }

  /** Runs something and tells its span, until its promise settles if it returns one. Failures are told, too. */
  record<T>(kind: SpanKind, args: SpanArguments, run: () => T): T {
    const start = this.startOf(kind);
    if (start === undefined) return run();
    const end = () => this.ended(kind, start, args);
    let result: T;
    try {
      result = run();
    } catch (error) {
      end();
      throw error;
    }
    if (result instanceof Promise) return result.finally(end) as T;
    end();
    return result;
  }

  /** The time, if somebody wants spans of that kind. */
  startOf(kind: Span['kind']): number | undefined {
    return this.listeners.has(kind) ? monotonicMicroseconds() : undefined;
  }

  /** Tells a span that ends now. */
  ended(kind: Span['kind'], start: number, args: SpanArguments, name: string = kind): void {
    const span = { kind, name, start, end: monotonicMicroseconds(), args };
    for (const listener of this.listeners.get(kind) ?? []) listener.onSpan(span);
  }

  /** Tells that a ring has formed. */
  formed(ringId: string, host: string): void {
    for (const listener of this.all) listener.onRing?.(ringId, host);
  }

  /** Closes the listeners. One that fails does not keep the others open. */
  close(): void {
    const all = [...this.all];
    this.all.clear();
    this.update();
    for (const listener of all) {
      try {
        listener.close?.();
      } catch (error) {
        console.error(`gradring: ${(error as Error).message}`);
      }
    }
  }

  private update(): void {
    this.listeners.clear();
    for (const listener of this.all)
      for (const kind of listener.kinds) this.listeners.set(kind, [...(this.listeners.get(kind) ?? []), listener]);
  }
}

/**
 * The metrics of a rank, in memory that its threads share. Each metric has one thread that writes it. An aligned float
 * is read whole on every 64-bit machine.
 */
export function sharedMetrics(): Float64Array {
  return new Float64Array(new SharedArrayBuffer(METRICS.length * Float64Array.BYTES_PER_ELEMENT));
}

/** A clock that is the same in all threads of a process, and is never set. */
export function monotonicMicroseconds(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

import { closeSync, openSync, writeSync } from 'node:fs';
import { thisProcess } from '../this-process';
import { lineOf, monotonicMicroseconds, type TimelineFile } from './timeline-file';
import {
  type MetadataEvent,
  processNumber,
  RING_EVENT,
  type SpanArguments,
  type SpanEvent,
  type SpanKind,
  type ThreadName,
  threadNumber,
} from './trace-event';

/** A thread buffers this many characters of its timeline, and for no longer than the interval. */
const BUFFER_LENGTH = 64 * 1024;
const FLUSH_INTERVAL_MS = 1_000;

/**
 * The part of one thread in the timeline of a rank. Both threads append to one file. Each write has only whole lines,
 * so lines never mix.
 *
 * Recording never fails. If the file cannot be written any more, the rank reports it once on stderr and stops
 * recording. A crash loses what is in the buffer; the normal end of a process does not.
 */
export class Timeline {
  private readonly descriptor: number;
  private readonly pid: number;
  private readonly tid: number;
  private readonly timer: NodeJS.Timeout;
  private buffer = '';
  private closed = false;
  private readonly flushAtEnd = () => this.flush();

  constructor(
    private readonly file: TimelineFile,
    thread: ThreadName,
  ) {
    this.descriptor = openSync(file.path, 'a');
    this.pid = processNumber(file.rank);
    this.tid = threadNumber(file.rank, thread);
    this.timer = setInterval(() => this.flush(), FLUSH_INTERVAL_MS).unref();
    thisProcess.on('exit', this.flushAtEnd);
  }

  /**
   * Whole microseconds since 1970, the same in both threads. Sums of whole numbers are not rounded, so spans nest
   * exactly.
   */
  now(): number {
    return Math.floor(this.file.clockOrigin + monotonicMicroseconds());
  }

  /** Records a span that ends now. */
  span(name: SpanKind, start: number, args: SpanArguments): void {
    this.add(name, 'span', start, args);
  }

  /** Records a collective, which encloses its spans, and ends now. */
  collective(name: string, start: number, args: SpanArguments): void {
    this.add(name, 'collective', start, args);
  }

  /** Runs something and records its span, until its promise settles if it returns one. Failures are recorded, too. */
  record<T>(name: SpanKind, args: SpanArguments, run: () => T): T {
    const start = this.now();
    const end = () => this.span(name, start, args);
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

  /** Writes to which ring the file belongs; at once, because merging needs it. */
  ring(ringId: string): void {
    const { pid, tid } = this;
    const { rank, worldSize } = this.file;
    this.write({ ph: 'M', name: RING_EVENT, pid, tid, args: { ring: ringId, rank, worldSize } });
    this.flush();
  }

  /** Writes the buffer to the file. */
  flush(): void {
    const text = this.buffer;
    this.buffer = '';
    const { stopped, path, rank } = this.file;
    if (text === '' || this.closed || Atomics.load(stopped, 0) === 1) return;
    try {
      const bytes = Buffer.from(text);
      const written = writeSync(this.descriptor, bytes);
      if (written < bytes.length) throw new Error('the disk is full');
    } catch (error) {
      if (Atomics.exchange(stopped, 0, 1) === 1) return;
      console.error(`gradring: the timeline of rank ${rank} ends here: ${path}: ${(error as Error).message}`);
    }
  }

  /** Flushes, and records no more. */
  close(): void {
    if (this.closed) return;
    this.flush();
    this.closed = true;
    clearInterval(this.timer);
    thisProcess.removeListener('exit', this.flushAtEnd);
    closeSync(this.descriptor);
  }

  private add(name: string, cat: SpanEvent['cat'], start: number, args: SpanArguments): void {
    const { pid } = this;
    const tid = this.rowOf(name, args);
    this.write({ ph: 'X', name, cat, ts: start, dur: this.now() - start, pid, tid, args });
  }

  /** The number of the thread in whose row a span is shown. */
  private rowOf(name: string, { direction }: SpanArguments): number {
    if (direction === undefined) return this.tid;
    const isSending = name === 'send' || name === 'forward';
    const row = isSending ? 'sends' : 'comm';
    return threadNumber(this.file.rank, direction === 'left' ? `${row}, to the left` : row);
  }

  private write(event: SpanEvent | MetadataEvent): void {
    if (this.closed) return;
    this.buffer += lineOf(event);
    if (this.buffer.length >= BUFFER_LENGTH) this.flush();
  }
}

/** {@link Timeline.record} if there is a timeline; otherwise it only runs the function. */
export function recorded<T>(timeline: Timeline | undefined, name: SpanKind, args: SpanArguments, run: () => T): T {
  return timeline === undefined ? run() : timeline.record(name, args, run);
}

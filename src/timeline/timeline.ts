import { closeSync, openSync, writeSync } from 'node:fs';
import { type Listener, type Span, SPAN_KINDS } from '../observer';
import { thisProcess } from '../this-process';
import { lineOf, type TimelineFile } from './timeline-file';
import {
  type MetadataEvent,
  processNumber,
  RING_EVENT,
  type SpanEvent,
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
 * recording. A crash loses what is in the buffer. A normal end writes it.
 */
export class Timeline implements Listener {
  readonly kinds = [...SPAN_KINDS, 'collective'] as const;
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

  onSpan({ kind, name, start, end, args }: Span): void {
    const { pid } = this;
    const ts = this.sinceEpoch(start);
    const cat = kind === 'collective' ? kind : 'span';
    this.write({ ph: 'X', name, cat, ts, dur: this.sinceEpoch(end) - ts, pid, tid: this.rowOf(name, args), args });
  }

  /** Writes to which ring the file belongs; at once, because merging needs it. */
  onRing(ringId: string, host: string): void {
    const { pid, tid } = this;
    const { rank, worldSize } = this.file;
    this.write({ ph: 'M', name: RING_EVENT, pid, tid, args: { ring: ringId, rank, worldSize, host } });
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

  /**
   * Whole microseconds since 1970, the same in both threads. Sums of whole numbers are not rounded, so spans nest
   * exactly.
   */
  private sinceEpoch(time: number): number {
    return Math.floor(this.file.clockOrigin + time);
  }

  /** The number of the thread in whose row a span is shown. */
  private rowOf(name: string, { direction }: Span['args']): number {
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

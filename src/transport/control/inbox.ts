import type { GradringError } from '../../errors';
import type { DataFrame } from '../transport';

/** A link is not read while its waiting frames hold more bytes than this. */
const INBOX_BYTES = 64 * 1024 * 1024;

/** The frames that arrived over one link and wait for their collective. */
export class Inbox {
  private readonly frames: DataFrame[] = [];
  private bytes = 0;
  private reader: { resolve: (frame: DataFrame) => void; reject: (error: GradringError) => void } | undefined;
  private onDrained: (() => void) | undefined;

  /** Whether {@link next} waits for a frame. */
  get isAwaited(): boolean {
    return this.reader !== undefined;
  }

  /** The number of the collective that the next frame belongs to, if there is one. */
  get nextSequence(): number | undefined {
    return this.frames[0]?.header.sequence;
  }

  put(frame: DataFrame): void {
    if (this.reader !== undefined) {
      const { resolve } = this.reader;
      this.reader = undefined;
      resolve(frame);
      return;
    }
    this.frames.push(frame);
    this.bytes += heldBytes(frame);
  }

  /** The next frame, now or when it arrives. One call at a time. */
  next(): Promise<DataFrame> {
    const frame = this.frames.shift();
    if (frame === undefined) {
      return new Promise((resolve, reject) => {
        this.reader = { resolve, reject };
      });
    }
    this.bytes -= heldBytes(frame);
    if (this.bytes <= INBOX_BYTES) this.onDrained?.();
    return Promise.resolve(frame);
  }

  /** Settles when there is room for more frames. */
  async untilRoom(): Promise<void> {
    if (this.bytes <= INBOX_BYTES) return;
    await new Promise<void>(resolve => {
      this.onDrained = resolve;
    });
    this.onDrained = undefined;
  }

  /** Fails the call that waits, and drops all frames. */
  fail(error: GradringError): void {
    this.reader?.reject(error);
    this.reader = undefined;
    this.frames.length = 0;
    this.bytes = 0;
    this.onDrained?.();
  }
}

/** Roughly the memory that a waiting frame takes. Small frames must count, too. */
function heldBytes({ headerBytes, body }: DataFrame): number {
  return 512 + headerBytes.length + body.length;
}

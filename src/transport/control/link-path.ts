import { copyOf } from '../../memory/buffers';
import type { GradringError } from '../../errors';
import type { DataHeader } from '../../wire/frame';
import { type Deferred, deferred } from '../deferred';
import { type Medium, type Side, SIDES } from '../ring-place';
import type { RingState } from '../ring-state';
import type { DataFrame, DataPath } from '../transport';

/** A link is not read while its waiting frames hold more bytes than this. */
const INBOX_BYTES = 64 * 1024 * 1024;

/** The frames that arrived over one link and wait for their collective. */
class Inbox {
  private readonly frames: DataFrame[] = [];
  private bytes = 0;
  /** The call that waits for a frame. */
  private reader: Deferred<DataFrame> | undefined;
  /** Settles when there is room for more frames. */
  private room: Deferred<void> | undefined;

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
      this.reader.resolve(frame);
      this.reader = undefined;
      return;
    }
    this.frames.push(frame);
    this.bytes += heldBytes(frame);
  }

  /** The next frame, now or when it arrives. One call at a time. */
  next(): Promise<DataFrame> {
    const frame = this.frames.shift();
    if (frame === undefined) return (this.reader = deferred()).promise;
    this.bytes -= heldBytes(frame);
    if (this.bytes <= INBOX_BYTES) this.room?.resolve();
    return Promise.resolve(frame);
  }

  /** Settles when there is room for more frames. */
  async untilRoom(): Promise<void> {
    if (this.bytes > INBOX_BYTES) await (this.room = deferred()).promise;
  }

  /** Fails the call that waits, and drops all frames. */
  fail(error: GradringError): void {
    this.reader?.reject(error);
    this.reader = undefined;
    this.frames.length = 0;
    this.bytes = 0;
    this.room?.resolve();
  }
}

/** Roughly the memory that a waiting frame takes. Small frames must count, too. */
function heldBytes({ headerBytes, body }: DataFrame): number {
  return 512 + headerBytes.length + body.length;
}

/** The path of sparse frames and of everything else that is not bulk: the ring of ZeroMQ links. */
export class LinkPath implements DataPath {
  readonly media: readonly Medium[];
  private readonly inboxes = { left: new Inbox(), right: new Inbox() };

  constructor(private readonly ring: RingState) {
    this.media = SIDES.map(side => ring.ends[side].medium);
  }

  /** Sends a copy, because ZeroMQ may read the memory at any later time. */
  async send(side: Side, header: DataHeader, body: Uint8Array): Promise<void> {
    const headerBytes = this.ring.encode(header);
    await this.ring.admit(side, headerBytes.length + body.length);
    await this.deliver(side, [headerBytes, copyOf(body)]);
  }

  /** Sends a received body without a copy, because nothing writes to it. */
  async forward(side: Side, { headerBytes, body, bytes }: DataFrame): Promise<void> {
    await this.ring.admit(side, headerBytes.length + bytes);
    await this.deliver(side, [headerBytes, body]);
  }

  async receive(side: Side): Promise<DataFrame> {
    const { failing } = this.ring;
    if (failing !== undefined) throw await failing;
    const inbox = this.inboxes[side];
    const next = inbox.next();
    if (inbox.isAwaited) this.ring.requireNeighbour(side);
    return next;
  }

  /** Whether a call waits for a frame from that side. */
  isAwaited(side: Side): boolean {
    return this.inboxes[side].isAwaited;
  }

  /** The next frame that has arrived from that side, if it belongs to that collective or an earlier one. */
  takeUpTo(side: Side, sequence: number): Promise<DataFrame> | undefined {
    const { nextSequence } = this.inboxes[side];
    return nextSequence !== undefined && nextSequence <= sequence ? this.inboxes[side].next() : undefined;
  }

  /** A frame has arrived from that side. */
  put(side: Side, frame: DataFrame): void {
    if (!this.ring.failed) this.inboxes[side].put(frame);
  }

  /** Settles when there is room for more frames from that side. */
  untilRoom(side: Side): Promise<void> {
    return this.inboxes[side].untilRoom();
  }

  /** Fails the calls that wait. */
  fail(error: GradringError): void {
    for (const side of SIDES) this.inboxes[side].fail(error);
  }

  private async deliver(side: Side, parts: Uint8Array[]): Promise<void> {
    try {
      await this.ring.ends[side].send(parts);
    } catch {
      throw await this.ring.failUnsent(side);
    }
  }
}

import { copyOf } from '../../memory/copy-bytes';
import type { GradringError } from '../../errors';
import type { DataHeader } from '../../wire/frame';
import type { Medium } from '../medium';
import { type Side, SIDES } from '../side';
import type { RingState } from '../ring-state';
import type { DataFrame, DataPath } from '../transport';
import { Inbox } from './inbox';

/** The path of sparse frames and of everything else that is not bulk: the ring of ZeroMQ links. */
export class LinkPath implements DataPath {
  readonly media: readonly Medium[];
  private readonly inboxes = { left: new Inbox(), right: new Inbox() };

  constructor(private readonly ring: RingState) {
    this.media = SIDES.map(side => ring.ends[side].medium);
  }

  /** Sends a copy, because ZeroMQ may read the memory at any later time. */
  async send(side: Side, header: DataHeader, body: Uint8Array): Promise<void> {
    await this.deliver(side, [this.ring.encodeCounted(header, body.length), copyOf(body)]);
  }

  /** Sends a received body without a copy, because nothing writes to it. */
  async forward(side: Side, frame: DataFrame): Promise<void> {
    this.ring.countForwarded(frame);
    await this.deliver(side, [frame.headerBytes, frame.body]);
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
    this.ring.requireNeighbour(side);
    const { failing } = this.ring;
    if (failing !== undefined) throw await failing;
    try {
      await this.ring.ends[side].send(parts);
    } catch {
      throw await this.ring.failUnsent(side);
    }
  }
}

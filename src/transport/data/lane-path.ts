import type { GradringError } from '../../errors';
import type { DataHeader } from '../../wire/frame';
import type { LinkPath } from '../control/link-path';
import { type Medium, type Side, SIDES } from '../ring-place';
import type { RingState } from '../ring-state';
import type { DataFrame, DataPath } from '../transport';
import type { Lane } from './lane';
import type { Landing } from './landing';
import { ProgressEngine } from './progress-engine';

/** The path for bulk: a lane beside each link. */
export class LanePath implements DataPath {
  readonly media: readonly Medium[];
  private readonly engine: ProgressEngine;
  /** The collective that waits for a frame from that side. */
  private readonly awaited: Record<Side, number | undefined> = { left: undefined, right: undefined };

  constructor(
    private readonly lanes: Readonly<Record<Side, Lane>>,
    private readonly ring: RingState,
    /** What arrives by the links may belong here: see {@link DataPath.receive}. */
    private readonly links: LinkPath,
  ) {
    this.media = SIDES.map(side => lanes[side].medium);
    this.engine = new ProgressEngine(
      SIDES.map(side => lanes[side]),
      ring.place.hasCore,
    );
    for (const side of SIDES) {
      lanes[side].attach({
        accept: frame => ring.acceptFromLane(side, frame),
        onWait: () => {
          if (this.isAwaited(side)) ring.requireNeighbour(side);
          this.engine.run();
        },
        onBroken: error => ring.failBroken(side, error),
        onLost: () => ring.lose(side, 'lane'),
      });
    }
  }

  async send(side: Side, header: DataHeader, body: Uint8Array): Promise<void> {
    const headerBytes = this.ring.encode(header);
    await this.ring.admit(side, headerBytes.length + body.length);
    await this.lanes[side].send(headerBytes, body);
  }

  async forward(side: Side, { headerBytes, body, bytes }: DataFrame): Promise<void> {
    await this.ring.admit(side, headerBytes.length + bytes);
    await this.lanes[side].send(headerBytes, body);
  }

  async receive(side: Side, sequence: number, landing?: Landing): Promise<DataFrame> {
    const lane = this.lanes[side];
    await lane.pace(); // before looking at the link, or a frame that arrives there meanwhile would be missed
    const { failing } = this.ring;
    if (failing !== undefined) throw await failing;
    const stray = this.links.takeUpTo(side, sequence);
    if (stray !== undefined) return stray;
    this.awaited[side] = sequence;
    try {
      return await lane.receive(landing);
    } finally {
      this.awaited[side] = undefined;
    }
  }

  /** Whether a call waits on that side, for a frame or for room. */
  isAwaited(side: Side): boolean {
    return this.lanes[side].waitsForFrame || this.lanes[side].waitsForRoom;
  }

  /**
   * A frame has arrived by the link. Takes it if a collective waits here: the frame shows that the neighbour is in
   * another one.
   */
  takeStray(side: Side, frame: DataFrame): boolean {
    if (!this.lanes[side].waitsForFrame || frame.header.sequence > this.awaited[side]!) return false;
    this.lanes[side].deliver(frame);
    return true;
  }

  fail(error: GradringError): void {
    for (const side of SIDES) this.lanes[side].fail(error);
  }
}

import type { GradringError } from '../../errors';
import type { DataHeader } from '../../wire/frame';
import type { Medium } from '../medium';
import { type Side, SIDES } from '../side';
import type { DataFrame, DataPath } from '../transport';
import type { AssembledFrame } from './frame-assembly';
import type { Lane } from './lane';
import type { Landing } from './landing';
import { ProgressEngine } from './progress-engine';

/** What a {@link LanePath} needs of its ring. */
export interface LaneRing {
  /** Whether there is a core for each rank of this host. */
  readonly hasCore: boolean;
  /** If the ring has failed: settles with what all ranks raise. Else `undefined`. */
  readonly failing: () => Promise<GradringError> | undefined;
  /** Encodes the header of a frame, and counts the frame as sent. */
  readonly encode: (header: DataHeader, bodyBytes: number) => Uint8Array;
  /** Counts a frame as forwarded. */
  readonly count: (frame: DataFrame) => void;
  /** Decodes a frame that has arrived from that side, and counts it as received. */
  readonly accept: (side: Side, frame: AssembledFrame) => DataFrame;
  /** The next frame that has arrived by the link, if it belongs to that collective or an earlier one. */
  readonly stray: (side: Side, sequence: number) => Promise<DataFrame> | undefined;
  /** The neighbour on that side is needed: the ring fails if it has left. */
  readonly requireNeighbour: (side: Side) => void;
  readonly onBroken: (side: Side, error: Error) => void;
  readonly onLost: (side: Side) => void;
}

/** The path for bulk: a lane beside each link. */
export class LanePath implements DataPath {
  readonly media: readonly Medium[];
  private readonly engine: ProgressEngine;
  /** The collective that waits for a frame from that side. */
  private readonly awaited: Record<Side, number | undefined> = { left: undefined, right: undefined };

  constructor(
    private readonly lanes: Readonly<Record<Side, Lane>>,
    private readonly ring: LaneRing,
  ) {
    this.media = SIDES.map(side => lanes[side].medium);
    this.engine = new ProgressEngine(
      SIDES.map(side => lanes[side]),
      ring.hasCore,
    );
    for (const side of SIDES) {
      lanes[side].attach({
        accept: frame => ring.accept(side, frame),
        onWait: () => {
          if (this.isAwaited(side)) ring.requireNeighbour(side);
          this.engine.run();
        },
        onBroken: error => ring.onBroken(side, error),
        onLost: () => ring.onLost(side),
      });
    }
  }

  async send(side: Side, header: DataHeader, body: Uint8Array): Promise<void> {
    await this.requireRing(side);
    await this.lanes[side].send(this.ring.encode(header, body.length), body);
  }

  async forward(side: Side, frame: DataFrame): Promise<void> {
    await this.requireRing(side);
    this.ring.count(frame);
    await this.lanes[side].send(frame.headerBytes, frame.body);
  }

  async receive(side: Side, sequence: number, landing?: Landing): Promise<DataFrame> {
    const lane = this.lanes[side];
    await lane.pace(); // before looking at the link, or a frame that arrives there meanwhile would be missed
    const failing = this.ring.failing();
    if (failing !== undefined) throw await failing;
    const stray = this.ring.stray(side, sequence);
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

  /** @throws what the ring has failed with, if it has. It fails if the neighbour on that side has left. */
  private async requireRing(side: Side): Promise<void> {
    this.ring.requireNeighbour(side);
    const failing = this.ring.failing();
    if (failing !== undefined) throw await failing;
  }

  fail(error: GradringError): void {
    for (const side of SIDES) this.lanes[side].fail(error);
  }
}

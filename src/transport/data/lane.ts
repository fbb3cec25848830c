import { setImmediate as turn } from 'node:timers/promises';
import { GradringError } from '../../errors';
import { deferred } from '../deferred';
import type { Carrier } from './carrier';
import type { CarriedFrame } from './frame-assembly';
import type { Landing } from './landing';
import type { Asked } from './system-calls';

/** So many frames go and come before the event loop turns, though none is waited for: others want to be heard, too. */
const FRAMES_A_TURN = 64;

/** What a {@link Lane} needs of the link that it runs beside. */
export interface LaneOwner {
  /** Takes a frame that has come. */
  readonly onFrame: (frame: CarriedFrame) => void;
  /** What has come is no frame: the error tells why. */
  readonly onBroken: (error: GradringError) => void;
  /** The way is broken; the link may not be. */
  readonly onLost: () => void;
  /** Whether somebody waits for a frame. */
  readonly isAwaited: () => boolean;
  /** Called when a frame, or room for one, is waited for. */
  readonly onWait: () => void;
  /** Settles when the ring has ended, and nobody need be waited for. */
  readonly ended: Promise<unknown>;
}

/**
 * The fast lane of a link: frames go by a {@link Carrier}, and the link's socket carries those that are sent before it
 * is open, and tells of failures. What goes either way keeps its order.
 */
export class Lane {
  /** Frames that went, and have come, by the link's socket. */
  private sentByLink = 0;
  private takenByLink = 0;
  private framesThisTurn = 0;
  /** Tries to send the frame that waits for room, if there is one. */
  private put: (() => boolean) | undefined;
  private room = deferred();
  private over = false;
  /** Where the body of the frame that is waited for may go. */
  private landing: Landing | undefined;

  constructor(
    private readonly carrier: Carrier,
    private readonly owner: LaneOwner,
  ) {
    carrier.onWake = () => this.woken();
    carrier.onLost = owner.onLost;
    void owner.ended.then(() => {
      this.over = true;
      this.forget();
      this.move();
    });
  }

  /** Sends a frame, or tells that it must go by the socket, at once. Waits for room. */
  async send(header: Uint8Array, body: Uint8Array): Promise<boolean> {
    while (this.isFull) await this.room.promise;
    if (!this.carrier.canSend) {
      this.sentByLink += 1;
      return false;
    }
    const put = () => this.carrier.put(header, body, this.sentByLink);
    if (!put()) {
      this.put = put;
      this.room = deferred();
      this.owner.onWait();
      await this.room.promise;
    }
    await this.pace();
    return true;
  }

  /** Whether a frame waits for room. */
  get isFull(): boolean {
    return this.put !== undefined;
  }

  /** Whether anything is waited for. */
  get waits(): boolean {
    return this.isFull || this.owner.isAwaited();
  }

  /** Whether what is waited for needs no event loop. */
  get isDirect(): boolean {
    return this.carrier.isDirect && (this.carrier.canReceive || !this.owner.isAwaited());
  }

  /** What to poll meanwhile. */
  get asked(): readonly Asked[] {
    return this.carrier.asked(this.isFull);
  }

  /** Lets the event loop turn, if many frames have come since it did. */
  async pace(): Promise<void> {
    if (++this.framesThisTurn <= FRAMES_A_TURN) return;
    this.framesThisTurn = 0;
    await turn();
  }

  /** Does what is waited for, if it can be done now. Returns whether any was. */
  move(): boolean {
    let moved = false;
    if (this.put !== undefined && (this.over || this.put())) {
      this.put = undefined;
      this.room.resolve();
      moved = true;
    }
    if (this.owner.isAwaited()) moved = this.takeNext() || moved;
    return moved;
  }

  /** Says that this end is about to sleep. Returns whether something that is waited for could be done after all. */
  sleepIn(where: 'poll' | 'event loop'): boolean {
    this.carrier.sleep(this.isFull, where);
    if (!this.owner.isAwaited()) this.carrier.readAhead();
    return this.move();
  }

  /** The next frame is waited for, and its body may land there: none is taken before that. */
  expect(landing: Landing | undefined): void {
    this.landing = this.over ? undefined : landing;
  }

  /** Takes the next frame, if it has come. */
  takeNext(): boolean {
    try {
      const taken = this.carrier.take(this.takenByLink, this.landing);
      if (taken === undefined) return false;
      this.landing = undefined;
      this.owner.onFrame(taken);
      return true;
    } catch (error) {
      if (!(error instanceof GradringError)) throw error;
      this.owner.onBroken(error);
      return false;
    }
  }

  /** Takes all frames that were sent before what has just come by the socket. */
  drain(): void {
    while (this.takeNext());
  }

  /** Takes all that the other end has sent, once that has finished. */
  async drainToEnd(): Promise<void> {
    await this.carrier.otherFinished();
    this.drain();
  }

  /** A frame has come by the socket, which is the next after those. */
  pass(): void {
    this.drain();
    this.takenByLink += 1;
    this.forget(); // if one is waited for, it is this
  }

  /** No body lands where that was to be. */
  private forget(): void {
    this.landing = undefined;
    this.carrier.forget();
  }

  /** The other end has put a frame in, or has made room. */
  private woken(): void {
    while (this.move());
    this.owner.onWait(); // also if it is another lane that waits: what has come here is to be read ahead
  }
}

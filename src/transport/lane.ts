import { setImmediate as turn } from 'node:timers/promises';
import { GradringError } from '../errors';
import { deferred } from './deferred';
import type { Carrier } from './carrier';
import type { QueuedFrame } from './shared-queue';
import { yieldCore } from './system-calls';

/**
 * For so long an end looks again and again before it sleeps, in ms: to be woken takes longer than most waits. Not where
 * others need the core meanwhile.
 */
const SPIN_MS = 1;

/** So many frames go and come before the event loop turns, though none is waited for: others want to be heard, too. */
const FRAMES_A_TURN = 64;

/** What a {@link Lane} needs of the link that it runs beside. */
export interface LaneOwner {
  /** Takes a frame that has come; its body may be used until it is freed, where it is to be. */
  readonly onFrame: (frame: QueuedFrame, free: (() => void) | undefined) => void;
  /** What has come is no frame: the error tells why. */
  readonly onBroken: (error: GradringError) => void;
  /** The way is broken; the link may not be. */
  readonly onLost: () => void;
  /** Whether there is a frame that nobody has asked for yet. */
  readonly hasFrame: () => boolean;
  /** Whether somebody waits for a frame. */
  readonly isAwaited: () => boolean;
  /** Whether there is a core for each rank of this host. */
  readonly hasCore: boolean;
  /** Settles when the ring has ended, and nobody need be waited for. */
  readonly ended: Promise<unknown>;
}

/**
 * The fast lane of a link: frames go by a {@link Carrier}, and the link's socket carries what is too large for it, or
 * goes before it is open, and tells of failures. What goes either way keeps its order.
 */
export class Lane {
  /** Frames that went, and have come, by the link's socket. */
  private sentByLink = 0;
  private takenByLink = 0;
  private framesThisTurn = 0;
  private room = deferred();
  private sending: Promise<unknown> = Promise.resolve();
  private full = false;
  private over = false;

  constructor(
    private readonly carrier: Carrier,
    private readonly owner: LaneOwner,
  ) {
    carrier.onWake = () => this.woken();
    carrier.onLost = owner.onLost;
    void owner.ended.then(() => {
      this.over = true;
      this.room.resolve();
    });
  }

  /** Sends a frame, or tells that it must go by the socket, at once. Waits for room. */
  async send(header: Uint8Array, body: Uint8Array, bulk: boolean): Promise<boolean> {
    while (this.full) await this.sending;
    if (!this.carrier.canSend || !this.carrier.takes(header, body)) {
      this.sentByLink += 1;
      return false;
    }
    const put = () => this.carrier.put(header, body, this.sentByLink, bulk);
    if (!put()) {
      this.full = true;
      await (this.sending = this.untilRoom(put));
      this.full = false;
    }
    await this.pace();
    return true;
  }

  /** Whether a frame waits for room. */
  get isFull(): boolean {
    return this.full;
  }

  /** Looks for the next frame, for a while. If none has come then, the other end will wake this one. */
  async look(): Promise<void> {
    if (!this.carrier.canReceive) return;
    await this.pace();
    if (!(await this.spin(() => this.owner.hasFrame() || this.takeNext()))) this.sleeps();
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
  }

  /** The other end has put a frame in, or has made room. */
  private woken(): void {
    this.room.resolve();
    while (this.owner.isAwaited() && !this.takeNext() && !this.sleeps());
  }

  /** Says that this end sleeps, and whether it may: there may be a frame after all. */
  private sleeps(): boolean {
    this.carrier.sleep('receiver');
    return !this.takeNext();
  }

  private takeNext(): boolean {
    try {
      const taken = this.carrier.take(this.takenByLink);
      if (taken === undefined) return false;
      this.owner.onFrame(taken.frame, taken.free);
      return true;
    } catch (error) {
      if (!(error instanceof GradringError)) throw error;
      this.owner.onBroken(error);
      return false;
    }
  }

  private async untilRoom(put: () => boolean): Promise<void> {
    if (await this.spin(() => this.over || put())) return;
    while (!this.over) {
      this.room = deferred();
      this.carrier.sleep('sender');
      if (put()) return;
      await this.room.promise;
    }
  }

  /** Tries again and again for {@link SPIN_MS}, and lets others have the thread, and the core, between. */
  private async spin(attempt: () => boolean): Promise<boolean> {
    if (attempt()) return true;
    if (!this.owner.hasCore) return false;
    const until = performance.now() + SPIN_MS;
    do {
      for (let look = 0; look < this.carrier.looksATurn; look++) {
        await undefined;
        if (attempt()) return true;
        yieldCore();
      }
      await this.turn();
      if (attempt()) return true;
    } while (performance.now() < until);
    return false;
  }

  private async pace(): Promise<void> {
    if (++this.framesThisTurn > FRAMES_A_TURN) await this.turn();
  }

  private async turn(): Promise<void> {
    this.framesThisTurn = 0;
    await turn();
  }
}

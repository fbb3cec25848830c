import { setImmediate as turn } from 'node:timers/promises';
import type { GradringError } from '../../errors';
import type { Offer } from '../../wire/frame';
import { deferred, type Deferred } from '../deferred';
import type { Medium } from '../ring-place';
import type { DataFrame } from '../transport';
import { type AssembledFrame, FrameAssembly, piecesOf } from './frame-assembly';
import type { Landing } from './landing';
import type { Polled } from './system-calls';

/** At most so many bytes are read before other work gets the thread, however fast they arrive. */
const BYTES_AT_ONCE = 8 * 1024 * 1024;

/** After so many frames the event loop turns, even if nothing had to wait: other events must be handled, too. */
const FRAMES_A_TURN = 64;

/** What a {@link Lane} needs of its ring. */
export interface LaneEvents {
  /**
   * Decodes a frame that has arrived.
   *
   * @throws GradringError `ERR_PROTOCOL`
   */
  readonly accept: (frame: AssembledFrame) => DataFrame;
  /** A call waits for a frame, or for room for one; or something has arrived that should be read ahead. */
  readonly onWait: () => void;
  /** What has arrived is no frame. Nothing after it can be read. */
  readonly onBroken: (error: Error) => void;
  /** The connection is broken: what was sent may be lost. */
  readonly onLost: () => void;
}

/**
 * Carries frames between two neighbours beside their link, as a stream of bytes each way. While a call waits for a
 * frame, or for room for one, a {@link ProgressEngine} moves the bytes. Otherwise the event loop does.
 */
export abstract class Lane {
  abstract readonly medium: Medium;
  /** Whether bytes are sent and received without the event loop. */
  abstract readonly isDirect: boolean;
  private events: LaneEvents | undefined;
  protected readonly assembly = new FrameAssembly();
  /** What is still to be sent of the frame that is on its way. */
  protected readonly unsent: Uint8Array[] = [];
  /** Settles when the frame that is on its way is sent. */
  private room: Deferred<void> | undefined;
  /** The call that waits for a frame, and where the frame's body may land. */
  private reader: (Deferred<DataFrame> & { readonly landing: Landing | undefined }) | undefined;
  private failure: GradringError | undefined;
  private framesThisTurn = 0;
  /** What is wrong with the bytes that have arrived, if they are no frame. */
  private broken: Error | undefined;
  private isLost = false;

  /** What the other end must know to connect. Undefined if it needs nothing, or has connected. */
  get offer(): Offer | undefined {
    return undefined;
  }

  /** To be called once, before anything is sent or received. */
  attach(events: LaneEvents): void {
    this.events = events;
    if (this.broken !== undefined) events.onBroken(this.broken);
    if (this.isLost) events.onLost();
  }

  /** Settles when both ends have opened the lane. Fails if that cannot be, or if the lane is closed. */
  abstract opened(): Promise<void>;
  /** What to poll for bytes that arrive and for room to send. */
  abstract polled(): readonly Polled[];
  /** This end is about to wait for bytes, and perhaps for room. It must try once more before it waits. */
  abstract prepareToWait(where: 'poll' | 'event loop'): void;
  /** Sends nothing more. To be called after {@link fail}, or when no call waits for room. */
  abstract finish(): void;
  /** Settles when the other end has finished, and all that it has sent has arrived. */
  abstract otherFinished(): Promise<void>;
  /** May be called twice. */
  abstract close(): void;
  /** Sends what there is room for, and returns how many bytes. With `more` the next bytes follow at once. */
  protected abstract sendNow(bytes: Uint8Array, more: boolean): number;
  /** Receives what has arrived, as far as it fits, and returns how many bytes. */
  protected abstract receiveNow(place: Uint8Array): number;
  /** Whether the memory that {@link sendNow} took is the caller's again. */
  protected abstract readonly isFlushed: boolean;

  /** Sends a frame, and waits for room. When this settles, the memory of the body is the caller's again. */
  async send(header: Uint8Array, body: Uint8Array): Promise<void> {
    while (this.room !== undefined) await this.room.promise;
    if (this.failure !== undefined) throw this.failure;
    this.unsent.push(...piecesOf(header, body));
    if (!this.flush()) {
      this.room = deferred();
      this.events!.onWait();
      await this.room.promise;
    }
    await this.pace();
  }

  /**
   * The next frame. One call at a time.
   *
   * @param landing Where its body may go as it arrives, if it has the same length.
   */
  async receive(landing?: Landing): Promise<DataFrame> {
    if (this.failure !== undefined) throw this.failure;
    const frame = this.take(landing);
    if (frame !== undefined) return frame;
    if (this.failure !== undefined) throw this.failure; // what has arrived may have failed the ring
    const { promise } = (this.reader = { ...deferred<DataFrame>(), landing });
    this.events!.onWait();
    return promise;
  }

  /** Lets the event loop turn, if many frames were sent or received since it last did. To be called for each frame. */
  async pace(): Promise<void> {
    if (++this.framesThisTurn <= FRAMES_A_TURN) return;
    this.framesThisTurn = 0;
    await turn();
  }

  /** Gives the call that waits for a frame this one, which has arrived by the link. */
  deliver(frame: DataFrame): void {
    this.assembly.forgetLanding();
    this.reader?.resolve(frame);
    this.reader = undefined;
  }

  /** Whether a call waits for room. */
  get waitsForRoom(): boolean {
    return this.room !== undefined;
  }

  /** Settles when no call waits for room. */
  async sent(): Promise<void> {
    await this.room?.promise.catch(() => undefined);
  }

  /** Whether a call waits for a frame. */
  get waitsForFrame(): boolean {
    return this.reader !== undefined;
  }

  /** Does what calls wait for, if it can be done now. Returns whether anything could. */
  move(): boolean {
    let moved = false;
    if (this.room !== undefined && this.flush()) {
      this.room.resolve();
      this.room = undefined;
      moved = true;
    }
    if (this.reader !== undefined) {
      const { landing, resolve } = this.reader;
      const frame = this.take(landing);
      if (frame !== undefined) {
        this.reader = undefined;
        resolve(frame);
        moved = true;
      }
    }
    return moved;
  }

  /** {@link prepareToWait}, and the last try. Returns whether it could do something that a call waits for. */
  tryBeforeWaiting(where: 'poll' | 'event loop'): boolean {
    this.prepareToWait(where);
    if (this.reader === undefined) this.read('ahead');
    return this.move();
  }

  /** Fails the calls that wait, and all later ones. From now on nothing is sent, and no body lands. */
  fail(error: GradringError): void {
    this.failure = error;
    this.unsent.length = 0;
    this.assembly.forgetLanding();
    this.room?.reject(error);
    this.room = undefined;
    this.reader?.reject(error);
    this.reader = undefined;
  }

  /** The other end has sent something, or has made room. */
  protected woken(): void {
    while (this.move());
    this.events?.onWait();
  }

  /** The connection is broken: what was sent may be lost. */
  protected lost(): void {
    if (this.isLost) return;
    this.isLost = true;
    this.events?.onLost();
  }

  /** Whether something has arrived that is no frame. */
  protected get isBroken(): boolean {
    return this.broken !== undefined;
  }

  /** Reads until a frame is whole, or the buffer is full, or all is read. Returns whether a frame is whole. */
  protected read(upTo: 'a frame' | 'ahead' | 'the end'): boolean {
    return this.parse(() => {
      let isWhole = false;
      let rest = BYTES_AT_ONCE;
      while (rest > 0 && (upTo === 'the end' || !(upTo === 'a frame' ? isWhole : this.assembly.isFull))) {
        const place = this.assembly.place();
        const count = this.receiveNow(place);
        if (count === 0) break;
        isWhole = this.assembly.advance(count) || isWhole;
        if (count < place.length) break;
        rest -= count;
      }
      return isWhole;
    });
  }

  /** Runs a reader of received bytes, and reports what is wrong with them. */
  protected parse(read: () => unknown): boolean {
    if (this.isBroken) return false;
    try {
      return Boolean(read());
    } catch (error) {
      this.broken = error as Error;
      this.events?.onBroken(this.broken);
      return false;
    }
  }

  private take(landing: Landing | undefined): DataFrame | undefined {
    const frame = this.assembly.take(landing) ?? (this.read('a frame') ? this.assembly.take() : undefined);
    let accepted: DataFrame | undefined;
    if (frame !== undefined) this.parse(() => (accepted = this.events!.accept(frame)));
    return accepted;
  }

  /** Sends what there is room for. Returns whether all is sent, so that the memory is the caller's again. */
  private flush(): boolean {
    const { unsent } = this;
    while (unsent.length > 0) {
      const next = unsent[0]!;
      const count = this.sendNow(next, unsent.length > 1);
      if (count === next.length) unsent.shift();
      else if (count === 0) return false;
      else unsent[0] = next.subarray(count);
    }
    return this.isFlushed;
  }
}

import type { Offer } from '../../wire/frame';
import { type CarriedFrame, FrameAssembly, piecesOf } from './frame-assembly';
import type { Landing } from './landing';
import type { Asked } from './system-calls';
import type { Medium } from '../transport';

/** So many are read at most before others have the thread, however fast they come. */
const BYTES_AT_ONCE = 8 * 1024 * 1024;

/**
 * What carries frames of data both ways between two neighbours beside their link, as a stream of bytes each way.
 *
 * Who waits for a frame, or for room, either sleeps until what is {@link asked} is ready, and tries again, or in the
 * event loop until {@link onWake} is called.
 */
export abstract class Carrier {
  /** Called when there may be a frame to be taken, or room for one. */
  onWake: () => void = () => undefined;
  /** Called when what was sent may be lost. */
  onLost: () => void = () => undefined;
  abstract readonly medium: Medium;
  /** What the other end must be told, to {@link meet} this one. */
  abstract readonly offer: Offer | undefined;
  /** Whether frames may be sent this way; once they may, they always may. */
  abstract readonly canSend: boolean;
  /** Whether frames may come this way; once they do, they always do. */
  abstract readonly canReceive: boolean;
  /** Whether bytes come and go without the event loop. */
  abstract readonly isDirect: boolean;

  protected readonly assembly = new FrameAssembly();
  /** What is to be sent of the frame that is on its way. */
  protected readonly unsent: Uint8Array[] = [];
  private isSending = false;
  /** What is wrong with the bytes that came. */
  protected broken: Error | undefined;

  /** Opens the way to an end that offers this. */
  abstract meet(offer: Offer): void;
  /** What to poll for bytes, and for room. */
  abstract asked(forRoom: boolean): readonly Asked[];
  /** Says that this end is about to wait for bytes, and perhaps for room. It must try once more before it does. */
  abstract sleep(forRoom: boolean, where: 'poll' | 'event loop'): void;
  /** Sends no more. */
  abstract finish(): void;
  /** Settles when all that the other end has sent can be taken, once that has finished. */
  abstract otherFinished(): Promise<void>;
  /** May be called twice. */
  abstract close(): void;
  /** Sends what there is room for, and returns how many bytes. With `more` the next ones follow at once. */
  protected abstract sendNow(bytes: Uint8Array, more: boolean): number;
  /** Receives what has come, as far as it fits, and returns how many bytes. */
  protected abstract receiveNow(place: Uint8Array): number;
  /** Whether the memory of what {@link sendNow} took is its owner's again. */
  protected abstract readonly isFlushed: boolean;

  /**
   * Sends a frame as far as there is room for it, and tells whether that is all, and its memory the caller's again. If
   * it is not, this is to be called again with the same until it is.
   *
   * @param after How many frames were sent by the link before this one: it is not taken before those.
   */
  put(header: Uint8Array, body: Uint8Array, after: number): boolean {
    if (!this.canSend) return false;
    const { unsent } = this;
    if (!this.isSending) {
      unsent.push(...piecesOf(header, body, after));
      this.isSending = true;
    }
    while (unsent.length > 0) {
      const next = unsent[0]!;
      const count = this.sendNow(next, unsent.length > 1);
      if (count === next.length) unsent.shift();
      else if (count === 0) return false;
      else unsent[0] = next.subarray(count);
    }
    this.isSending = !this.isFlushed;
    return !this.isSending;
  }

  /**
   * Takes the next frame, if there is one, and if `after` so many frames by the link it is its turn.
   *
   * @param landing Where its body may go, from now on until it is taken.
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
  take(after: number, landing?: Landing): CarriedFrame | undefined {
    const taken = this.assembly.take(after, landing);
    if (taken !== undefined) return taken;
    if (this.broken !== undefined) throw this.broken;
    if (!this.assembly.isEmpty) return undefined; // what comes by the link is to be taken before
    return this.read('a frame') ? this.assembly.take(after, landing) : undefined;
  }

  /** Reads what has come, though nobody waits for it, so that the other end has room. */
  readAhead(): void {
    try {
      this.read('ahead');
    } catch {
      // It is thrown when a frame is to be taken.
    }
  }

  /** No body lands any more where that was to be. */
  forget(): void {
    this.assembly.forget();
  }

  /**
   * Reads what has come: a frame, or as much as may be held, or all. Returns whether a frame is whole.
   *
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
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

  /** Remembers what is wrong with the bytes: nothing that comes after it can be read. */
  protected parse(read: () => boolean): boolean {
    if (this.broken !== undefined) return false;
    try {
      return read();
    } catch (error) {
      this.broken = error as Error;
      throw error;
    }
  }
}

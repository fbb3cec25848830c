import type { Offer } from '../wire/frame';
import type { QueuedFrame } from './shared-queue';

/** A frame that was taken from a {@link Carrier}. */
export interface Taken {
  readonly frame: QueuedFrame;
  /** The body is the carrier's again. Missing if it is the taker's for good. */
  readonly free: (() => void) | undefined;
}

/** What carries frames of data both ways between two neighbours beside their link. */
export interface Carrier {
  /** Called when there may be a frame to be taken, or room for one. */
  onWake: () => void;
  /** Called when what was sent may be lost. */
  onLost: () => void;
  /** Looks that are worth while before the event loop turns. */
  readonly looksATurn: number;
  /** What the other end must be told, to {@link meet} this one. */
  readonly offer: Offer | undefined;
  /** Opens the way to an end that offers this. */
  meet(offer: Offer): void;
  /** Whether frames may be sent this way; once they may, they always may. */
  readonly canSend: boolean;
  /** Whether frames may come this way. */
  readonly canReceive: boolean;
  /** Whether a frame is small enough. */
  takes(header: Uint8Array, body: Uint8Array): boolean;
  /**
   * Sends a frame if there is room for it, and tells whether its memory is the caller's again. If it is not, this is to
   * be called again with the same until it is.
   *
   * @param after How many frames were sent by the link before this one: it is not taken before those.
   */
  put(header: Uint8Array, body: Uint8Array, after: number, bulk: boolean): boolean;
  /**
   * Takes the next frame, if there is one, and if `after` so many frames by the link it is its turn.
   *
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
  take(after: number): Taken | undefined;
  /** Says that this end is about to wait for a frame, or for room. It must look once more before it does. */
  sleep(end: 'receiver' | 'sender'): void;
  /** Sends no more. */
  finish(): void;
  /** Settles when all that the other end has sent can be taken, once that has finished. */
  otherFinished(): Promise<void>;
  /** Nobody may touch a frame of the carrier after this. May be called twice. */
  close(): void;
}

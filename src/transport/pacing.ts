import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What a link that was idle lets through at once, as the time that it takes. The network lab has the same. It makes up
 * for timers that fire late, which have a granularity of 1 ms.
 */
const BURST_MS = 1;

/** The clock of a {@link Pacer}, in ms. `wait` may settle too early or too late; it settles when the signal aborts. */
export interface PacerClock {
  readonly now: () => number;
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

const CLOCK: PacerClock = {
  now: () => performance.now(),
  wait: (ms, signal) => sleep(Math.round(ms), undefined, { ref: false, signal }).catch(() => undefined),
};

/**
 * The sending half of a network card of a given rate, as a token bucket: a virtual clock says when the card has sent
 * all that it was given. A frame may be late by as much as the timers are. Over a longer time the rate is exact. In a
 * ring every rank receives as much as its neighbours send, so only sending is paced: of all paths, to both sides.
 */
export class Pacer {
  private readonly bytesPerMs: number;
  private readonly stopping = new AbortController();
  /** When the card has sent all that it was given. */
  private sentAt = -Infinity;

  constructor(
    bitsPerSecond: number,
    private readonly clock: PacerClock = CLOCK,
  ) {
    this.bytesPerMs = bitsPerSecond / 8000;
  }

  /** How long the card takes for a byte, in ns. */
  get byteNs(): number {
    return 1e6 / this.bytesPerMs;
  }

  /** Settles when the card has sent these bytes, after all that it was given before. */
  async send(bytes: number): Promise<void> {
    const { clock } = this;
    const { signal } = this.stopping;
    const due = Math.max(this.sentAt, clock.now() - BURST_MS) + bytes / this.bytesPerMs;
    this.sentAt = due;
    // Timers may also fire early. Half a millisecond is as near as they come.
    for (let left = due - clock.now(); left >= 0.5 && !signal.aborted; left = due - clock.now())
      await clock.wait(left, signal);
  }

  /** From now on nothing waits any more. */
  stop(): void {
    this.stopping.abort();
  }
}

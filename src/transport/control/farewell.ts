import { deferred } from '../deferred';
import { type Side, SIDES } from '../side';

/** Finds out when a rank and its neighbours have received the last messages of each other: goodbyes and aborts. */
export class Farewell {
  /** How many last messages each neighbour has not acknowledged yet. */
  private readonly unseen = { left: 0, right: 0 };
  /** Sides from which a last message has arrived, or none is expected. */
  private readonly heard = new Set<Side>();
  private readonly gone = new Set<Side>();
  private readonly end = deferred();
  private isAwaited = false;

  /** Settles when each neighbour has sent a last message and acknowledged all that were sent to it, or is gone. */
  over(): Promise<void> {
    this.isAwaited = true;
    this.check();
    return this.end.promise;
  }

  /** A last message is sent to a neighbour, which must acknowledge it. */
  say(side: Side): void {
    this.unseen[side] += 1;
  }

  /** A neighbour has acknowledged a last message. */
  see(side: Side): void {
    this.unseen[side] -= 1;
    this.check();
  }

  /** A neighbour has sent a last message, or none is expected of it. */
  hear(side: Side): void {
    this.heard.add(side);
    this.check();
  }

  lose(side: Side): void {
    this.gone.add(side);
    this.check();
  }

  private check(): void {
    const isOver = (side: Side): boolean => this.gone.has(side) || (this.heard.has(side) && this.unseen[side] <= 0);
    if (this.isAwaited && SIDES.every(isOver)) this.end.resolve();
  }
}

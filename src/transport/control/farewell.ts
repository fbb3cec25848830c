import { deferred } from '../deferred';
import { type Side, SIDES } from '../ring-place';

/** Finds out when a rank and its neighbours have received the last messages of each other: goodbyes and aborts. */
export class Farewell {
  /** How many last messages each neighbour has not acknowledged yet. */
  private readonly unacknowledged = { left: 0, right: 0 };
  /** Sides from which a last message has arrived, or none is expected. */
  private readonly done = new Set<Side>();
  private readonly gone = new Set<Side>();
  private readonly end = deferred();
  private isAwaited = false;

  /** Settles when each neighbour has sent a last message and acknowledged all that were sent to it, or is gone. */
  over(): Promise<void> {
    this.isAwaited = true;
    this.check();
    return this.end.promise;
  }

  /** A last message was sent to a neighbour, which must acknowledge it. */
  sent(side: Side): void {
    this.unacknowledged[side] += 1;
  }

  /** A neighbour has acknowledged a last message. */
  acknowledged(side: Side): void {
    this.unacknowledged[side] -= 1;
    this.check();
  }

  /** A neighbour has sent a last message, or none is expected of it. */
  received(side: Side): void {
    this.done.add(side);
    this.check();
  }

  lost(side: Side): void {
    this.gone.add(side);
    this.check();
  }

  private check(): void {
    const isOver = (side: Side): boolean =>
      this.gone.has(side) || (this.done.has(side) && this.unacknowledged[side] <= 0);
    if (this.isAwaited && SIDES.every(isOver)) this.end.resolve();
  }
}

import { deferred } from '../deferred';
import { type Side, SIDES } from '../side';

/** The end of what a rank and its neighbours have to say to each other. */
export class Farewell {
  /** How many last words each neighbour has not acknowledged yet. */
  private readonly unseen = { left: 0, right: 0 };
  /** Who has said a last word, or need not. */
  private readonly heard = new Set<Side>();
  private readonly gone = new Set<Side>();
  private readonly end = deferred();
  private isAwaited = false;

  /** Settles when both neighbours have said a last word, and have seen all that were said to them; or are gone. */
  over(): Promise<void> {
    this.isAwaited = true;
    this.check();
    return this.end.promise;
  }

  /** A last word goes to a neighbour, which is to acknowledge it. */
  say(side: Side): void {
    this.unseen[side] += 1;
  }

  /** A neighbour has acknowledged one. */
  see(side: Side): void {
    this.unseen[side] -= 1;
    this.check();
  }

  /** A neighbour has said a last word, or none is expected of it. */
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

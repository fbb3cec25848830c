/** A clock, in ms. */
export interface DelayClock {
  readonly now: () => number;
  /** Calls back after about so many ms. */
  readonly after: (ms: number, run: () => void) => void;
}

const CLOCK: DelayClock = { now: () => performance.now(), after: (ms, run) => void setTimeout(run, ms) };

/** Timers fire up to a millisecond late, and never more often than that. Half of it is as near as they come. */
const NEAR_MS = 0.5;

/** How long each item takes, in ms. */
export interface Delay {
  readonly delayMs: number;
  /** Each item takes up to so much longer or shorter. Their order stays the same. */
  readonly jitterMs: number;
}

/** Hands over items in their order, each some time after it was given. */
export class DelayLine<Item> {
  private readonly items: { readonly item: Item; readonly due: number }[] = [];
  /** When the last item is due. */
  private lastDue: number;
  private isTimed = false;

  /**
   * @param deliver Takes an item that is due.
   * @param notBefore The time before which nothing is delivered.
   * @param random A number from 0 to 1.
   */
  constructor(
    private readonly delay: Delay,
    private readonly deliver: (item: Item) => void,
    notBefore = -Infinity,
    private readonly clock = CLOCK,
    private readonly random = Math.random,
  ) {
    this.lastDue = notBefore;
  }

  give(item: Item): void {
    const { delayMs, jitterMs } = this.delay;
    const due = this.clock.now() + delayMs + jitterMs * (2 * this.random() - 1);
    this.lastDue = Math.max(this.lastDue, due);
    this.items.push({ item, due: this.lastDue });
    this.time();
  }

  private time(): void {
    const [next] = this.items;
    if (this.isTimed || next === undefined) return;
    this.isTimed = true;
    this.clock.after(Math.max(0, next.due - this.clock.now()), () => {
      this.isTimed = false;
      this.deliverDue();
      this.time();
    });
  }

  private deliverDue(): void {
    const now = this.clock.now() + NEAR_MS;
    while (this.items.length > 0 && this.items[0]!.due <= now) this.deliver(this.items.shift()!.item);
  }
}

import { wakingNow, WakingTimer } from './waking-time';

/** Tells the user how long something has been waited for: after some time, again after twice that time, and so on. */
export class Patience {
  private timer: WakingTimer | undefined;

  constructor(
    /** After how many ms it is told first. 0: never. */
    private readonly firstMs: number,
    /** Tells that the wait has lasted this many seconds. */
    private readonly tell: (seconds: number) => void,
  ) {}

  /** The wait begins, if it has not begun before. */
  begin(): void {
    if (this.timer === undefined && this.firstMs > 0) this.wait(wakingNow(), this.firstMs);
  }

  /** The wait is over. */
  end(): void {
    this.timer?.cancel();
    this.timer = undefined;
  }

  private wait(since: number, pauseMs: number): void {
    const tell = () => {
      this.tell(Math.round((wakingNow() - since) / 1000));
      this.wait(since, 2 * pauseMs);
    };
    this.timer = new WakingTimer(tell, pauseMs);
  }
}

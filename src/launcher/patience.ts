import { LONGEST_DELAY_MS } from '../longest-delay';

/** Ranks that still run this long after the first one was done are named, again after twice as long, and so on. */
const FIRST_MS = 30_000;

/**
 * Reports which ranks the launcher still waits for when others are done. One may evaluate for an hour, and another may
 * have been stopped.
 */
export class Patience {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** The ranks that still run. */
    private readonly running: () => readonly { readonly rank: number; readonly pid: number }[],
    /** Prints a line for the user. */
    private readonly say: (line: string) => void,
  ) {}

  /** A rank is done. */
  begin(): void {
    if (this.timer === undefined) this.wait(performance.now(), FIRST_MS);
  }

  /** No rank runs any more, or all are started again. */
  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private wait(since: number, pauseMs: number): void {
    const tell = () => {
      const ranks = this.running().map(({ rank, pid }) => `rank ${rank} (pid ${pid})`);
      const seconds = Math.round((performance.now() - since) / 1000);
      this.say(`gradring: still running, ${seconds} s after the first rank was done: ${ranks.join(', ')}.`);
      this.wait(since, 2 * pauseMs);
    };
    this.timer = setTimeout(tell, Math.min(pauseMs, LONGEST_DELAY_MS));
  }
}

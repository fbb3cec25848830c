/** The longest delay that a timer of Node can wait, in ms; with a longer one it fires at once. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** A timer that waits looks at the clock at least this often. */
const LOOK_MS = 1_000;

/** A thread that has not looked for this long was stopped, and not only late. */
const STOPPED_MS = 3_000;

let seenAt = performance.now();
let stoppedMs = 0;

/**
 * Milliseconds on a clock that stands still while this process is stopped: by SIGSTOP or `docker pause`, or with its
 * virtual machine. Others who were stopped with it, or whose answers have not been read yet, are not late by this
 * clock. It is right while a {@link WakingTimer} runs, or somebody looks at it every second.
 */
export function wakingNow(): number {
  const now = performance.now();
  if (now - seenAt > STOPPED_MS) stoppedMs += now - seenAt;
  seenAt = now;
  return now - stoppedMs;
}

/** A timer by {@link wakingNow}. It may be of any length. */
export class WakingTimer {
  private readonly endsAt: number;
  private timer: NodeJS.Timeout | undefined;
  private last: NodeJS.Immediate | undefined;

  constructor(
    private readonly act: () => void,
    ms: number,
  ) {
    this.endsAt = wakingNow() + ms;
    this.wait(ms);
  }

  cancel(): void {
    clearTimeout(this.timer);
    clearImmediate(this.last);
  }

  private wait(leftMs: number): void {
    this.timer = setTimeout(() => this.look(), Math.min(leftMs, LOOK_MS));
  }

  private look(): void {
    const leftMs = this.endsAt - wakingNow();
    if (leftMs > 0) this.wait(leftMs);
    else this.last = setImmediate(this.act); // first Node reads what has arrived while this thread was late
  }
}

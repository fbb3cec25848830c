/** What a rank may tell the others with an exchange. Each notice is one of eight bits. */
export const Notice = {
  /** It was told to stop. */
  Stop: 1,
  /** It is writing a checkpoint in the background. */
  Writing: 2,
  /** It has written one, or failed to. */
  Written: 4,
} as const;

/**
 * What the ranks of a training tell each other with each exchange, at no cost: it travels with the gradients. So all
 * learn it after the same step.
 */
export class StepNotices {
  /** What this rank tells with each exchange that begins from now on. */
  own = 0;
  private agreed: number | undefined;

  /** Takes what some rank has told with the last exchange. Undefined if there was none since it was taken. */
  take(): number | undefined {
    const { agreed } = this;
    this.agreed = undefined;
    return agreed;
  }

  /** Does as if no rank had told that with the last exchange. */
  forget(notice: number): void {
    if (this.agreed !== undefined) this.agreed &= ~notice;
  }

  /** An exchange is over. */
  hear(agreed: number): void {
    this.agreed = agreed;
  }
}

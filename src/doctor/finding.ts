/** What was found out about one thing. */
export interface Finding {
  /** In a word or two. */
  readonly what: string;
  /**
   * `absent`: it is not there, which does no harm by itself. `problem`: gradring cannot work so. `warning`: it works,
   * but not well, or not everywhere.
   */
  readonly verdict: 'ok' | 'absent' | 'warning' | 'problem';
  /** What was found, and what to do about it, in one sentence. */
  readonly words: string;
  /** The same for programs. */
  readonly details: Readonly<Record<string, unknown>>;
}

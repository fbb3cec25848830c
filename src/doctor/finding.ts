/** The result of one check. */
export interface Finding {
  /** What was checked, in a word or two. */
  readonly what: string;
  /**
   * `absent`: it is not there, which does no harm. `problem`: gradring cannot work with this. `warning`: gradring
   * works, but not well, or not everywhere.
   */
  readonly verdict: 'ok' | 'absent' | 'warning' | 'problem';
  /** What was found, and what to do about it, in one sentence. */
  readonly words: string;
  /** The same for programs. */
  readonly details: Readonly<Record<string, unknown>>;
}

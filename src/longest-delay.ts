/** The longest delay that a timer of Node can wait, in ms; with a longer one it fires at once. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1;

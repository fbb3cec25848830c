/**
 * What a line of a rank begins with if the next line of that rank replaces it. The launcher shows it at the bottom of
 * the terminal. To a terminal itself it means: erase the line.
 */
export const REPLACEABLE = '\x1b[2K';

/** The variable by which the launcher tells its ranks how wide such a line may be. Without it there is no terminal. */
export const COLUMNS_VARIABLE = 'GRADRING_COLUMNS';

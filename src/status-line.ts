/**
 * A line of a rank begins with this if the next line of that rank replaces it. The launcher shows such a line at the
 * bottom of the terminal. A terminal itself takes it as the command to erase the line.
 */
export const REPLACEABLE = '\x1b[2K';

/** The variable by which the launcher tells its ranks how wide such a line may be. Without it there is no terminal. */
export const COLUMNS_VARIABLE = 'GRADRING_COLUMNS';

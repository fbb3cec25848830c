/** A byte offset in the one shared memory, 0 to 2³² − 1. */
export type Pointer = number;

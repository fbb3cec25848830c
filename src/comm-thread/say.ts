import { writeSync } from 'node:fs';

/** The file descriptor of stderr. */
const STDERR = 2;

/** Prints a line at once. `console` would need the main thread, which may be asleep. */
export function say(line: string): void {
  try {
    writeSync(STDERR, `${line}\n`);
  } catch {
    // Nobody reads it.
  }
}

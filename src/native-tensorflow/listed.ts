import { readdirSync } from 'node:fs';
import { attempt } from '../attempt';

/** The names in a directory; none if it cannot be read. */
export function listed(directory: string): string[] {
  return attempt(() => readdirSync(directory)) ?? [];
}

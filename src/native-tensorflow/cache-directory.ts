import { homedir } from 'node:os';
import path from 'node:path';

/** The folder for files of link-tensorflow outside of projects. */
export function cacheDirectory(): string {
  return path.join(process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'gradring');
}

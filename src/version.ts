import { readFileSync } from 'node:fs';
import path from 'node:path';

/** Of this package. */
export function readVersion(): string {
  const file = path.join(__dirname, '../package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

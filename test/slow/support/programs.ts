import { execFileSync, spawnSync } from 'node:child_process';
import { describeWhere } from '../../support/test-where';

/** Where a program is, or undefined. */
export function whereIs(program: string): string | undefined {
  try {
    return execFileSync('which', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

/**
 * Why tests with these programs cannot run here, or undefined. In containers, root often may not make namespaces.
 */
function obstacleTo(programs: readonly string[]): string | undefined {
  const missing = programs.filter(program => whereIs(program) === undefined);
  if (missing.length > 0) return `${missing.join(', ')} not found`;
  if (process.getuid?.() !== 0) return 'needs root';
  if (!programs.includes('ip')) return undefined;
  const name = `probe-${process.pid}`;
  const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' });
  if (made.status !== 0) return `no network namespace can be made: ${made.stderr.trim()}`;
  spawnSync('ip', ['netns', 'delete', name]);
  return undefined;
}

/** `describe`, where these programs are installed and the user is root. */
export function describeWith(programs: readonly string[], name: string, tests: () => void): void {
  describeWhere(obstacleTo(programs))(name, tests);
}

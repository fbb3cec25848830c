import { execFileSync } from 'node:child_process';

/** Where a program is, or undefined. */
export function whereIs(program: string): string | undefined {
  try {
    return execFileSync('which', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

/**
 * `describe`, if these programs are installed and the user is root. Else the tests are skipped, with a message; where
 * GRADRING_REQUIRE_CLUSTERS is set, as in CI, they fail.
 */
export function describeWith(programs: readonly string[], name: string, tests: () => void): void {
  const missing = programs.filter(program => whereIs(program) === undefined);
  const why = process.getuid?.() === 0 ? `${missing.join(', ')} not found` : 'needs root';
  if (missing.length === 0 && process.getuid?.() === 0) return describe(name, tests);
  if (!process.env['GRADRING_REQUIRE_CLUSTERS']) {
    console.log(`Skipped: ${name} (${why}).`);
    return describe.skip(name, tests);
  }
  test(name, () => {
    throw new Error(`This cannot be tested: ${why}.`);
  });
}

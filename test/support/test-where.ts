import { spawnSync } from 'node:child_process';

/**
 * `test`, where nothing prevents it. Where something does, the tests are skipped and say why; in CI, which installs all
 * that they need, they fail.
 *
 * ```ts
 * testWhere(needs.root)('a full disk', () => …);
 * ```
 *
 * @param obstacle Why the test cannot run here; undefined if it can.
 * @param isInCi Whether CI must have what it needs.
 */
export function testWhere(obstacle: string | undefined, isInCi = true): jest.It {
  return where(obstacle, test, test.skip, isInCi);
}

/** As {@link testWhere}, for `describe`. */
export function describeWhere(obstacle: string | undefined): jest.Describe {
  return where(obstacle, describe, describe.skip as jest.Describe);
}

function where<T extends jest.It | jest.Describe>(obstacle: string | undefined, run: T, skip: T, isInCi = true): T {
  if (obstacle === undefined) return run;
  const say = (name: unknown) => process.stderr.write(`Skipped: ${String(name)} (${obstacle}).\n`);
  const fail = (name: unknown) =>
    test(String(name), () => {
      throw new Error(`This cannot be tested: ${obstacle}.`);
    });
  const instead =
    process.env['CI'] && isInCi
      ? Object.assign(fail, { each: () => fail })
      : Object.assign((name: string, body: () => void) => (say(name), skip(name, body)), {
          each: (cases: never) => (name: string, body: () => void) => (say(name), skip.each(cases)(name, body)),
        });
  return instead as unknown as T;
}

/** What tests may need. Each is the obstacle, or undefined. */
export const needs = {
  linux: process.platform === 'linux' ? undefined : 'needs Linux',
  root: process.platform === 'linux' && process.getuid!() === 0 ? undefined : 'needs root, on Linux',
  /** Mounts and networks of its own for a process, which containers often forbid. */
  get namespaces(): string | undefined {
    const { status, stderr } = spawnSync('unshare', ['-Urmn', 'true'], { encoding: 'utf8' });
    return status === 0 ? undefined : `no namespace can be made: ${stderr?.trim() || 'unshare not found'}`;
  },
};

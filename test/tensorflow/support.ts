import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import type { LaunchResult } from '../../src/launcher/conclude';
import { launch } from '../../src/launcher/launch';
import { isSlow } from '../support/cases';
import { freePort } from '../support/rings';

/** How a launch of a fixture ended, and what its ranks said. */
export interface FixtureRun<T> extends LaunchResult {
  /** By rank. Undefined for ranks that did not get as far. */
  readonly results: readonly T[];
  readonly output: string;
}

export interface FixtureOptions {
  readonly ranks: number;
  readonly input?: unknown;
  /** Default: cpu. */
  readonly backend?: string;
  readonly env?: Record<string, string>;
  /** The run is elastic, with so many ranks at least. */
  readonly min?: number | undefined;
  readonly stopAfter?: string;
}

/** The backend of all of these tests, if `test/slow/backends.test.ts` sets one. */
export const TEST_BACKEND = process.env['TEST_BACKEND'];

/** Launches a fixture of this folder, whatever comes of it. */
export async function launchFixture<T>(name: string, options: FixtureOptions): Promise<FixtureRun<T>> {
  const { ranks, input = null, env = {}, min, stopAfter } = options;
  const backend = TEST_BACKEND ?? options.backend ?? 'cpu';
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-ranks-'));
  const output = new Capture();
  try {
    writeFileSync(path.join(folder, 'input.json'), JSON.stringify(input));
    const result = await launch({
      ranks,
      ...(min !== undefined && { min }),
      ...(stopAfter !== undefined && { stopAfter }),
      script: path.join(__dirname, 'fixtures', name),
      env: { GRADRING_BACKEND: backend, TEST_FOLDER: folder, ...env },
      stdout: output,
      stderr: output,
    });
    const results: T[] = [];
    for (const file of readdirSync(folder)) {
      const rank = /^rank-(\d+)\.json$/.exec(file)?.[1];
      if (rank !== undefined) results[Number(rank)] = JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as T;
    }
    return { ...result, results, output: output.text };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Launches a fixture that must succeed, and returns the ranks' results. */
export async function runFixture<T>(name: string, options: FixtureOptions): Promise<readonly T[]> {
  const { exitCode, results, output } = await launchFixture<T>(name, options);
  if (exitCode !== 0) throw new Error(`${name} failed:\n${output}`);
  return results;
}

/** How something failed on a rank. */
export interface Failure {
  readonly code?: string;
  readonly message?: string;
  readonly details?: { readonly rank?: number; readonly variable?: string; readonly step?: number };
}

/** What came of each scenario. */
type Outcomes = Readonly<Record<string, Failure & { readonly value?: unknown }>>;

/**
 * Launches a fixture of scenarios before the tests of the block. Returns a function that gives what a scenario returned
 * on each rank; it must not have failed on any.
 */
export function runScenarios(
  name: string,
  ranks: number,
  run = (): Promise<readonly Outcomes[]> => runFixture(name, { ranks }),
): <T>(scenario: string) => T[] {
  let byRank: readonly Outcomes[];
  beforeAll(async () => {
    byRank = await run();
  });
  return <T>(scenario: string) =>
    byRank.map(outcomes => {
      const { value, ...failure } = outcomes[scenario]!;
      expect(failure).toEqual({});
      return value as T;
    });
}

/** The rings of tests that form several. */
export const RING_SIZES = isSlow ? [1, 3] : [2];

/** What came of fixtures in rings: by rank, and by the size of the ring. */
const inRings = new Map<string, Promise<readonly Readonly<Record<number, Outcomes>>[]>>();

/** What a fixture needs to form a ring of each of these sizes from the same processes: as many, and ports. */
export async function placesOfRings(
  sizes: readonly number[] = RING_SIZES,
): Promise<{ ranks: number; ports: Readonly<Record<number, number>> }> {
  const ports = await Promise.all(sizes.map(async size => [size, await freePort()] as const));
  return { ranks: Math.max(...sizes), ports: Object.fromEntries(ports) };
}

/** As {@link runScenarios}. The fixture is launched once: its processes form a ring of each of {@link RING_SIZES}. */
export function runScenariosInRings(
  name: string,
  size: number,
  input: object = {},
  env: Record<string, string> = {},
): <T>(scenario: string) => T[] {
  return runScenarios(name, size, async () => {
    if (!inRings.has(name)) {
      const { ranks, ports } = await placesOfRings();
      inRings.set(name, runFixture(name, { ranks, input: { ...input, ports }, env }));
    }
    return (await inRings.get(name)!).slice(0, size).map(outcomes => outcomes[size]!);
  });
}

class Capture extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    this.text += chunk.toString();
    callback();
  }
}

/** The largest |a − b| ÷ (1 + |b|). */
export function largestError(actual: readonly number[], expected: ArrayLike<number>): number {
  expect(actual).toHaveLength(expected.length);
  return actual.reduce(
    (worst, value, i) => Math.max(worst, Math.abs(value - expected[i]!) / (1 + Math.abs(expected[i]!))),
    0,
  );
}

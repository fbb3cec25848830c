import { fork } from 'node:child_process';
import { cpSync } from 'node:fs';
import path from 'node:path';
import type { BackendName } from '../../src/tensorflow/backend';
import type { Outcome, Run, Values } from './run';

/** Up to this error, relative to the largest number, two backends agree: both round to 24 bits in each operation. */
export const TOLERANCE = 1e-5;

/** How an operation fares on a backend. */
export interface Summary {
  readonly cases: number;
  /** The largest error of the results, relative to the largest number of each. Undefined if there are none. */
  readonly values?: number;
  /** That of the gradients. */
  readonly gradients?: number;
  /** Which of gradring's kernels and gradients took part. */
  readonly own: readonly string[];
  /** What fails, and in which cases. */
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly of: 'values' | 'gradients';
  readonly why: string;
  readonly cases: readonly string[];
}

/**
 * Runs all cases in a process of their own: it can have only one backend.
 *
 * @param project A project that has installed gradring as it is built here. Default: this repository.
 */
export function runOn(backend: BackendName, project?: string, node: string[] = []): Promise<Run> {
  const folder = project === undefined ? __dirname : copyTo(project);
  const options = { cwd: project, serialization: 'advanced', execArgv: node } as const;
  const child = fork(path.join(folder, 'run.js'), [backend], options);
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('close', code => reject(new Error(`The cases on ${backend} ended with exit code ${code}.`)));
  });
}

/** Puts these programs into the gradring of a project, because they import parts of it. */
function copyTo(project: string): string {
  const folder = path.join(project, 'node_modules/gradring/dist/.harness/operations');
  cpSync(__dirname, folder, { recursive: true });
  return folder;
}

/** The true results, and gradients that are differences of results: both with 64 bits. */
export function runReference(): Promise<Run> {
  return runOn('cpu', undefined, ['--require', path.join(__dirname, 'doubles.js')]);
}

/** What came of all operations on a backend. */
export function summarise(run: Run, reference: Run): Record<string, Summary> {
  return Object.fromEntries(
    Object.entries(run.outcomes).map(([operation, outcomes]) => [
      operation,
      summariseOne(outcomes, reference.outcomes[operation]!),
    ]),
  );
}

function summariseOne(outcomes: Readonly<Record<string, Outcome>>, references: typeof outcomes): Summary {
  const errors = { values: [] as number[], gradients: [] as number[] };
  const failures: { of: Failure['of']; why: string; cases: string[] }[] = [];
  for (const [what, outcome] of Object.entries(outcomes)) {
    for (const of of ['values', 'gradients'] as const) {
      if (of === 'gradients' && outcome.gradients === outcome.values) continue; // the operation itself has failed
      const error = compare(outcome[of], references[what]![of]);
      if (typeof error === 'number') errors[of].push(error);
      if (typeof error === 'number' && error <= TOLERANCE) continue;
      const why = typeof error === 'string' ? error : 'wrong';
      const alike = failures.find(failure => failure.of === of && failure.why === why);
      if (alike === undefined) failures.push({ of, why, cases: [what] });
      else alike.cases.push(what);
    }
  }
  const largest = Object.entries(errors).flatMap(([of, all]) => (all.length > 0 ? [[of, Math.max(...all)]] : []));
  return {
    cases: Object.keys(outcomes).length,
    ...Object.fromEntries(largest),
    own: [...new Set(Object.values(outcomes).flatMap(({ own }) => own))].sort(),
    failures,
  };
}

/** The largest error, or why there is none. */
function compare(actual: readonly Values[] | string, expected: readonly Values[] | string): number | string {
  if (typeof actual === 'string') return inWords(actual);
  if (typeof expected === 'string') return `there is no reference: ${inWords(expected)}`;
  const types = (all: readonly Values[]) => all.map(({ dtype, shape }) => `${dtype}[${shape}]`).join(', ');
  if (types(actual) !== types(expected)) return `${types(actual)} instead of ${types(expected)}`;
  return Math.max(0, ...actual.map(({ numbers }, i) => largestError(numbers, expected[i]!.numbers)));
}

function largestError(actual: readonly number[], expected: readonly number[]): number {
  if (actual.length !== expected.length) return Infinity;
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return actual.reduce((worst, value, i) => {
    const error = Math.abs(value - expected[i]!) / scale;
    return Object.is(value, expected[i]) ? worst : Number.isNaN(error) ? Infinity : Math.max(worst, error);
  }, 0);
}

function inWords(message: string): string {
  const [, withoutGradient] = /gradient function not found for (\w+)/.exec(message) ?? [];
  if (withoutGradient !== undefined) return `no gradient of ${withoutGradient}`;
  const [, missing] = /^Kernel '(\w+)' not registered/.exec(message) ?? [];
  if (missing !== undefined) return `no kernel ${missing}`;
  return message.split('\n', 1)[0]!.replace(/\.? Got.*|\s+$/, '');
}

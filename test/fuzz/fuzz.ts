import { mutateBytes } from './mutate-bytes';
import { Random } from './random';

/** An input, and what a target needs to mutate it better than as bytes. */
export interface Entry {
  readonly bytes: Uint8Array;
}

/** A decoder of bytes that come from outside. */
export interface Target {
  readonly name: string;
  /** Valid inputs, from the encoders. */
  seeds(): Entry[];
  /** Without it, inputs are mutated as bytes. */
  mutate?(random: Random, entry: Entry, other: Entry): Entry;
  /** Decodes the bytes; throws if this breaks a promise. The features tell whether the input does something new. */
  run(bytes: Uint8Array): { outcome: string; features?: Iterable<number> };
}

/** What a run of the fuzzer has found so far. */
export interface Report {
  inputs: number;
  readonly outcomes: Map<string, number>;
  features: number;
  seconds: number;
  /** The input that broke a promise, and ended the run. */
  crash?: { readonly bytes: Uint8Array; readonly error: Error };
}

/** The same seed gives the same inputs. The fuzzer stops at the first limit that it reaches. */
export interface FuzzOptions {
  readonly seed: number;
  readonly inputs?: number;
  readonly seconds?: number;
  readonly onProgress?: (report: Report) => void;
}

// Why not Jazzer.js: its prebuilt libFuzzer (4.0.0) needs glibc 2.38, so it does not start on Debian 12; it would come
// with 77 packages; and it does not see into WebAssembly, where most of what is tested here runs.

/** Larger inputs are chosen rarely: they take as long as a hundred others. */
const LARGE_BYTES = 16_384;
const LARGE_ONE_OF = 500;

/** Inputs that did something new and are mutated further, at most. */
const CORPUS_LIMIT = 20_000;

/** How often the clock is looked at and progress told of. */
const INPUTS_A_ROUND = 2_000;

/** Runs a target's seeds, then mutants of these and of the mutants that did something new. */
export function fuzz(target: Target, { seed, inputs = Infinity, seconds = Infinity, onProgress }: FuzzOptions): Report {
  const random = new Random(seed);
  const corpora: Record<'small' | 'large', Entry[]> = { small: [], large: [] };
  const outcomes = new Map<string, number>();
  const features = new Set<number>();
  const start = process.hrtime.bigint();
  const elapsed = () => Number(process.hrtime.bigint() - start) / 1e9;
  const report: Report = { inputs: 0, outcomes, features: 0, seconds: 0 };

  const mutate = (entry: Entry, other: Entry): Entry =>
    target.mutate?.(random, entry, other) ?? { bytes: mutateBytes(random, entry.bytes, other.bytes) };
  const choose = (): Entry => {
    const { small, large } = corpora;
    return random.of(small.length === 0 || (large.length > 0 && random.below(LARGE_ONE_OF) === 0) ? large : small);
  };
  const keep = (entry: Entry): void => {
    const corpus = entry.bytes.length >= LARGE_BYTES ? corpora.large : corpora.small;
    if (corpus.length < CORPUS_LIMIT) corpus.push(entry);
  };
  /** Whether it did something new. */
  const run = (entry: Entry): boolean => {
    report.inputs++;
    const { outcome, features: its = [] } = target.run(entry.bytes);
    const known = features.size + outcomes.size;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    for (const feature of its) features.add(feature);
    return features.size + outcomes.size > known;
  };

  const seeds = target.seeds();
  let entry: Entry | undefined;
  // Nobody reads the stack traces of refusals, and they take longer than the rest.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    while (report.inputs < inputs) {
      if (report.inputs < seeds.length) {
        entry = seeds[report.inputs];
        run(entry);
        keep(entry);
      } else {
        entry = mutate(choose(), choose());
        if (run(entry)) keep(entry);
      }
      if (report.inputs % INPUTS_A_ROUND === 0) {
        Object.assign(report, { features: features.size, seconds: elapsed() });
        onProgress?.(report);
        if (report.seconds >= seconds) break;
      }
    }
  } catch (error) {
    Error.stackTraceLimit = stackTraceLimit;
    if (entry === undefined) throw error;
    const { bytes } = entry;
    report.crash = { bytes, error: errorOf(() => target.run(bytes)) ?? (error as Error) };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return Object.assign(report, { features: features.size, seconds: elapsed() });
}

function errorOf(run: () => unknown): Error | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

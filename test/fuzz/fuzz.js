const { mutateBytes } = require('./mutate-bytes');
const { Random } = require('./random');

/**
 * @typedef {object} Entry An input, and what a target needs to mutate it better than as bytes.
 * @property {Uint8Array} bytes
 *
 * @typedef {object} Target A decoder of strangers' bytes.
 * @property {string} name
 * @property {() => Entry[]} seeds Valid inputs, from the encoders.
 * @property {(random: Random, entry: Entry, other: Entry) => Entry} [mutate] As bytes, where there is none.
 * @property {(bytes: Uint8Array) => { outcome: string, features?: Iterable<number> }} run Has the bytes decoded; throws
 *   if this violates a promise. The features tell whether the input does something new.
 *
 * @typedef {object} Report
 * @property {number} inputs
 * @property {Map<string, number>} outcomes
 * @property {number} features
 * @property {number} seconds
 * @property {{ bytes: Uint8Array, error: Error }} [crash]
 */

// Why not Jazzer.js: its prebuilt libFuzzer (4.0.0) needs glibc 2.38, so it does not start on Debian 12; it would come
// with 77 packages; and it does not see into WebAssembly, where most of what is tested here runs.

/** Larger inputs are chosen rarely: they take as long as a hundred others. */
const LARGE_BYTES = 16_384;
const LARGE_ONE_OF = 500;

/** Inputs that did something new and are mutated further, at most. */
const CORPUS_LIMIT = 20_000;

/** How often the clock is looked at and progress told of. */
const INPUTS_A_ROUND = 2_000;

/**
 * Runs a target's seeds, then mutants of these and of the mutants that did something new. The same seed gives the same
 * inputs.
 *
 * @param {Target} target
 * @param {{ seed: number, inputs?: number, seconds?: number, onProgress?: (report: Report) => void }} options
 * @returns {Report} with the crash, if one ended it.
 */
function fuzz(target, { seed, inputs = Infinity, seconds = Infinity, onProgress }) {
  const random = new Random(seed);
  const mutate =
    target.mutate ?? ((random, entry, other) => ({ bytes: mutateBytes(random, entry.bytes, other.bytes) }));
  const corpora = { small: [], large: [] };
  const outcomes = new Map();
  const features = new Set();
  const start = process.hrtime.bigint();
  const elapsed = () => Number(process.hrtime.bigint() - start) / 1e9;
  const report = { inputs: 0, outcomes, features: 0, seconds: 0 };

  const choose = () => {
    const { small, large } = corpora;
    return random.of(small.length === 0 || (large.length > 0 && random.below(LARGE_ONE_OF) === 0) ? large : small);
  };
  const keep = entry => {
    const corpus = entry.bytes.length >= LARGE_BYTES ? corpora.large : corpora.small;
    if (corpus.length < CORPUS_LIMIT) corpus.push(entry);
  };
  /** Whether it did something new. */
  const run = entry => {
    report.inputs++;
    const { outcome, features: its = [] } = target.run(entry.bytes);
    const known = features.size + outcomes.size;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    for (const feature of its) features.add(feature);
    return features.size + outcomes.size > known;
  };

  const seeds = target.seeds();
  let entry;
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
        entry = mutate(random, choose(), choose());
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
    report.crash = { bytes: entry.bytes, error: errorOf(() => target.run(entry.bytes)) ?? error };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return Object.assign(report, { features: features.size, seconds: elapsed() });
}

function errorOf(run) {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}

module.exports = { fuzz };

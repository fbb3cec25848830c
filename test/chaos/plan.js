const { FAULT_KINDS, HARMLESS } = require('./fault-kinds');
const { Random } = require('../fuzz/random');

/**
 * @typedef {object} Fault
 * @property {string} kind One of {@link FAULT_KINDS}.
 * @property {number[]} ranks Those that it strikes.
 * @property {{ step: number, afterMs: number } | { startMs: number }} at After some rank has done a step, or after the start.
 * @property {number} forMs How long it lasts, or until the rank is started again.
 *
 * @typedef {object} Plan One run: nothing in it is left to chance but what the system does.
 * @property {number} number
 * @property {number} ranks
 * @property {number} steps
 * @property {'ipc' | 'tcp'} transport
 * @property {boolean} encrypted
 * @property {boolean} launcher Whether `gradring run` starts the ranks.
 * @property {'exchange' | 'model'} workload
 * @property {'dgc' | 'none'} compression
 * @property {boolean} sync Whether the ranks sleep in their calls.
 * @property {number} paceMs A rank's own work a step, at most.
 * @property {'close' | 'exit' | 'fall off'} leave How a script ends.
 * @property {Fault[]} faults
 */

/** One run in so many trains a model with TensorFlow.js, which takes long to load. */
const MODEL_ONE_OF = 25;
const MODEL_RANKS = 4;

/** One fault in so many, of those that may, comes while the ranks start and meet. */
const EARLY_ONE_OF = 5;
const START_MS = 1_500;

const SECOND_FAULT_ONE_OF = 4;

/**
 * The plan of a run: the same for the same seed and number.
 *
 * @param {string[]} [kinds] The kinds of fault to choose from. Default: all.
 * @returns {Plan}
 */
function planOf(seed, number, kinds = Object.keys(FAULT_KINDS)) {
  const random = new Random(seed * 1_000_003 + number);
  const isModel = random.below(MODEL_ONE_OF) === 0;
  const ranks = isModel ? MODEL_RANKS : 4 + random.below(5);
  const steps = 20 + random.below(41);
  const kind = drawKind(random, kinds);
  const { launcher, link } = FAULT_KINDS[kind];
  const place = { ranks, steps };
  const faults = [drawFault(random, kind, place)];
  // A rank that is stopped or busy does not see to what befalls it meanwhile.
  if (FAULT_KINDS[kind].outcome === 'loss' && random.below(SECOND_FAULT_ONE_OF) === 0) {
    const second = drawFault(random, random.of(HARMLESS), place);
    if (!second.ranks.some(rank => faults[0].ranks.includes(rank))) faults.push(second);
  }
  const transport = link || random.below(2) === 0 ? 'tcp' : 'ipc';
  return {
    number,
    ranks,
    steps,
    transport,
    encrypted: transport === 'tcp' && random.below(4) === 0,
    launcher: launcher === 'must' || (launcher === 'may' && random.below(3) === 0),
    workload: isModel ? 'model' : 'exchange',
    compression: random.of(['dgc', 'none']),
    sync: random.below(2) === 0,
    paceMs: random.of([0, 0, 5, 20]),
    leave: random.of(['close', 'exit', 'fall off']),
    faults,
  };
}

function drawKind(random, kinds) {
  const total = kinds.reduce((sum, kind) => sum + FAULT_KINDS[kind].weight, 0);
  let left = random.below(total);
  return kinds.find(kind => (left -= FAULT_KINDS[kind].weight) < 0);
}

/** @returns {Fault} */
function drawFault(random, kind, { ranks, steps }) {
  const { early, forMs: [least, most] = [0, 0], ranks: struckCount = 1 } = FAULT_KINDS[kind];
  const first = random.below(ranks);
  const struck = [first, (first + 1 + random.below(ranks - 1)) % ranks].slice(0, struckCount);
  const atStep = { step: random.below(steps - 1), afterMs: random.below(20) };
  const at = early && random.below(EARLY_ONE_OF) === 0 ? { startMs: random.below(START_MS) } : atStep;
  return { kind, ranks: struck, at, forMs: least + random.below(most - least) };
}

module.exports = { planOf };

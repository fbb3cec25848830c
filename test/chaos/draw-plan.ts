import { Random } from '../fuzz/random';
import { drawElastic } from './draw-elastic';
import { FAULT_KINDS, type FaultName, HARMLESS } from './fault-kinds';
import { WAYS_TO_LEAVE } from './leaving';
import type { Fault, Plan } from './plan';

/** One run in so many trains a model with TensorFlow.js, which takes long to load. */
const MODEL_ONE_OF = 25;
const MODEL_RANKS = 4;

/** One fault in so many, of those that may, comes while the ranks start and meet. */
const EARLY_ONE_OF = 5;
const START_MS = 1_500;

/** One in so many comes in the last step, or while the ranks leave. */
const LATE_ONE_OF = 6;

const SECOND_FAULT_ONE_OF = 4;

const LEAST_STAY_MS = 500;
const MOST_STAY_MS = 1_500;

/**
 * Longer than a machine with much to do halts a healthy rank. The longer one is drawn seldom, for the silence of a rank
 * takes as long.
 */
const HEARTBEATS_MS = [5_000, 5_000, 5_000, 8_000];

/**
 * The plan of a run: the same for the same seed and number.
 *
 * @param kinds The kinds of fault to choose from. Default: all.
 */
export function planOf(
  seed: number,
  number: number,
  kinds: readonly FaultName[] = Object.keys(FAULT_KINDS) as FaultName[],
): Plan {
  const random = new Random(seed * 1_000_003 + number);
  const isModel = random.below(MODEL_ONE_OF) === 0;
  const ranks = isModel ? MODEL_RANKS : 4 + random.below(5);
  const steps = 20 + random.below(41);
  const kind = drawKind(random, kinds);
  const { launcher, link } = FAULT_KINDS[kind];
  const heartbeatMs = random.of(HEARTBEATS_MS);
  const place = { ranks, steps, heartbeatMs };
  const faults = [drawFault(random, kind, place)];
  // A rank that is stopped or busy does not see to what befalls it meanwhile.
  if (FAULT_KINDS[kind].outcome === 'loss' && random.below(SECOND_FAULT_ONE_OF) === 0) {
    const second = drawFault(random, random.of(HARMLESS), place);
    if (!second.ranks.some(rank => faults[0].ranks.includes(rank))) faults.push(second);
  }
  // A launcher waits for a rank that is stopped when the others are done.
  const mayLaunch = launcher === 'may' && !(kind === 'stop' && isLate(faults[0], place));
  const transport = link || random.below(2) === 0 ? 'tcp' : 'ipc';
  const plan: Plan = {
    number,
    ranks,
    steps,
    transport,
    encrypted: transport === 'tcp' && random.below(4) === 0,
    heartbeatMs,
    launcher: launcher === 'must' || (mayLaunch && random.below(3) === 0),
    workload: isModel ? 'model' : 'exchange',
    compression: random.of(['dgc', 'none'] as const),
    sync: random.below(2) === 0,
    paceMs: random.of([0, 0, 5, 20]),
    leaves: Array.from({ length: ranks }, () => random.of(WAYS_TO_LEAVE)),
    stayMs: LEAST_STAY_MS + random.below(MOST_STAY_MS - LEAST_STAY_MS),
    faults,
  };
  return kind === 'elastic' ? drawElastic(random, plan) : plan;
}

function drawKind(random: Random, kinds: readonly FaultName[]): FaultName {
  const total = kinds.reduce((sum, kind) => sum + FAULT_KINDS[kind].weight, 0);
  let left = random.below(total);
  return kinds.find(kind => (left -= FAULT_KINDS[kind].weight) < 0)!;
}

type Place = Pick<Plan, 'ranks' | 'steps' | 'heartbeatMs'>;

function drawFault(random: Random, kind: FaultName, { ranks, steps, heartbeatMs }: Place): Fault {
  const { early, forMs, ranks: struckCount = 1 } = FAULT_KINDS[kind];
  const [least, most] = forMs?.(heartbeatMs) ?? [0, 0];
  const first = random.below(ranks);
  const struck = [first, (first + 1 + random.below(ranks - 1)) % ranks].slice(0, struckCount);
  const step = random.below(LATE_ONE_OF) === 0 ? steps - 1 - random.below(2) : random.below(steps - 2);
  const atStep = { step, afterMs: random.below(20) };
  const at = early && random.below(EARLY_ONE_OF) === 0 ? { startMs: random.below(START_MS) } : atStep;
  return { kind, ranks: struck, at, forMs: least + random.below(most - least) };
}

function isLate({ at }: Fault, { steps }: Place): boolean {
  return 'step' in at && at.step >= steps - 2;
}

import type { Method, WorkloadPlan } from './declaration';
import { tuningOf, type Training } from './summarise';
import { type LoggedTraining, trainingOf } from './training-log';

/** A training that is to be run. */
export interface PlannedTraining {
  readonly workload: string;
  readonly method: Method;
  readonly isTuning: boolean;
  readonly learningRate: number;
  /** That of its pairs. */
  readonly seed: number;
  readonly fold: number;
}

/** The most learning rates that are tried for a method. */
const MOST_RATES = 8;

/** Rates are so many parts of a factor of two apart: a factor of √2. */
const PARTS = 2;

/**
 * The learning rates to try next for a method: first one, and those a factor of √2 above and below. While the best is
 * at an end, the next one beyond that end. If none is finite, the next one below.
 */
export function ratesToTry(first: number, tried: readonly { learningRate: number; best: boolean }[]): number[] {
  const rate = (exponent: number) => Number((first * 2 ** (exponent / PARTS)).toPrecision(4));
  if (tried.length === 0) return [-1, 0, 1].map(rate);
  if (tried.length >= MOST_RATES) return [];
  const exponents = tried.map(({ learningRate }) => Math.round(PARTS * Math.log2(learningRate / first)));
  const [lowest, highest] = [Math.min(...exponents), Math.max(...exponents)];
  const best = exponents[tried.findIndex(each => each.best)] ?? lowest;
  if (best === lowest) return [rate(lowest - 1)];
  return best === highest ? [rate(highest + 1)] : [];
}

/** How far a workload is. */
export interface StudyState {
  /** Those of the search for learning rates. */
  readonly tuned: readonly LoggedTraining[];
  /** Those that count. */
  readonly paired: readonly LoggedTraining[];
  /** What to run next. When that is done, more may follow. */
  readonly next: readonly PlannedTraining[];
  /** How many trainings there are in all, as far as is known. */
  readonly total: number;
}

/** How far a workload is, by the log of its trainings: each search goes as it went before. */
export function stateOf(
  plan: WorkloadPlan,
  find: (planned: PlannedTraining) => LoggedTraining | undefined,
): StudyState {
  const among = (planned: readonly PlannedTraining[]) => planned.flatMap(each => find(each) ?? []);
  const missingIn = (planned: readonly PlannedTraining[]) => planned.filter(each => find(each) === undefined);
  const tuned: LoggedTraining[] = [];
  for (;;) {
    const round = tuningTrainings(plan, tuned.map(trainingOf));
    const missing = missingIn(round);
    tuned.push(...among(round));
    const paired = pairedTrainings(plan, tuned.map(trainingOf));
    const total = tuned.length + missing.length + paired.length;
    if (missing.length > 0) return { tuned, paired: [], next: missing, total };
    if (round.length === 0) return { tuned, paired: among(paired), next: missingIn(paired), total };
  }
}

/** The trainings that come next in the search for learning rates, after those that are done. None: it is over. */
function tuningTrainings(plan: WorkloadPlan, done: readonly Training[]): PlannedTraining[] {
  const { name: workload, methods, learningRate: first, tuningSeeds, tuningFold: fold, margin } = plan;
  const rows = tuningOf(done, margin);
  return tuningSeeds.flatMap(seed =>
    methods
      .filter(({ ratesOf }) => ratesOf === undefined)
      .flatMap(method => {
        const rates = ratesToTry(first, rows.filter(row => row.method === method.name)); // prettier-ignore
        return rates.map(learningRate => ({ workload, method, isTuning: true, learningRate, seed, fold }));
      }),
  );
}

/** The trainings that count, by seed, so that an interrupted study has as much of each method. */
export function pairedTrainings(plan: WorkloadPlan, tuning: readonly Training[]): PlannedTraining[] {
  const { name: workload, seeds, folds, methods, ablationSeeds } = plan;
  const rates = learningRatesOf(plan, tuning);
  return seeds.flatMap(seed =>
    folds.flatMap(fold =>
      methods
        .filter(({ isVariant }) => !isVariant || ablationSeeds.includes(seed))
        .map(method => {
          return { workload, method, isTuning: false, learningRate: rates.get(method.name)!, seed, fold };
        }),
    ),
  );
}

/** What is the same for all trainings of a study. */
export interface StudySize {
  readonly ranks: number;
  readonly quick: boolean;
  /** The folder of the user's data. */
  readonly dataDir?: string | undefined;
}

/** What a training depends on, beside the program. */
export function keyOf(training: PlannedTraining, { ranks, quick, dataDir }: StudySize): string {
  const { workload, method, isTuning, learningRate, seed, fold } = training;
  const { name, method: compression, moduleHash, options, wrap, seedOffset = 0, partOffset } = method;
  const settings = {
    ...{ ranks, quick, dataDir, isTuning, learningRate },
    ...{ seed, seedOffset, fold, wrap, moduleHash, partOffset },
  };
  return JSON.stringify([workload, name, compression, options, settings]);
}

/** By the name of the method: the best rate that was tried for it. */
function learningRatesOf({ methods, learningRate, learningRates, margin }: WorkloadPlan, tuning: readonly Training[]) {
  const best = new Map(tuningOf(tuning, margin).filter(row => row.best).map(row => [row.method, row.learningRate])); // prettier-ignore
  return new Map(
    methods.map(({ name, ratesOf = name }) => [name, best.get(ratesOf) ?? learningRates?.[ratesOf] ?? learningRate]),
  );
}

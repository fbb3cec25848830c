import type { Method, WorkloadPlan } from './declaration';
import { tuningOf, type Training } from './summarise';

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

/** The trainings that find the learning rates. */
export function tuningTrainings(plan: WorkloadPlan): PlannedTraining[] {
  const { name: workload, methods, learningRates, tuningSeeds, folds } = plan;
  return tuningSeeds.flatMap((seed, i) =>
    methods
      .filter(({ ratesOf }) => ratesOf === undefined)
      .flatMap(method =>
        learningRates.map(learningRate => {
          return { workload, method, isTuning: true, learningRate, seed, fold: folds[i % folds.length]! };
        }),
      ),
  );
}

/** The trainings that count, by seed, so that an interrupted study has as much of each method. */
export function pairedTrainings(plan: WorkloadPlan, tuning: readonly Training[]): PlannedTraining[] {
  const { name: workload, seeds, folds, methods, ablationSeeds } = plan;
  return seeds.flatMap(seed =>
    folds.flatMap(fold =>
      methods
        .filter(({ isVariant }) => !isVariant || ablationSeeds.includes(seed))
        .map(method => {
          return { workload, method, isTuning: false, learningRate: learningRateOf(method, plan, tuning), seed, fold };
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

function learningRateOf(method: Method, { learningRates, margin }: WorkloadPlan, tuning: readonly Training[]): number {
  const name = method.ratesOf ?? method.name;
  const best = tuningOf(tuning, margin).find(row => row.method === name && row.best);
  return best?.learningRate ?? learningRates[Math.floor(learningRates.length / 2)]!;
}

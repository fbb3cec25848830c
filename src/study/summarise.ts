import { invalidArgument } from '../errors';
import {
  type AblationResults,
  type ControlResult,
  type Declared,
  type Interval,
  type Margin,
  type MethodResults,
  RESULTS_FORMAT,
  RESULTS_VERSION,
  type StudyFacts,
  type StudyResults,
  type TrainingResult,
  type TuningRow,
  type WorkloadFacts,
  type WorkloadResults,
} from './results';
import {
  bootstrapInterval,
  mean,
  meanInterval,
  pairedDifferences,
  type Sample,
  seedMeans,
  type Interval as Bounds,
  type Verdict,
  verdictOf,
} from './statistics';

/** One training, as it was measured. A training that diverged has a score that is not finite, and no examples. */
export interface Training extends Omit<TrainingResult, 'score' | 'logLoss'> {
  readonly workload: string;
  readonly method: string;
  /** Whether it was to find a learning rate. Such trainings have seeds of their own. */
  readonly isTuning: boolean;
  readonly options: Readonly<Record<string, unknown>>;
  readonly learningRate: number;
  readonly score: number;
  readonly logLoss: number;
  /** What the dense ring would have sent. */
  readonly denseBytesPerRank: number;
  /**
   * A figure for each test example, in the order of the test set. Their mean is the score, or its logarithm if the
   * margin is relative. A fold has the same examples for all seeds and methods.
   */
  readonly examples: ArrayLike<number>;
}

/**
 * The results of a study from all its trainings.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if a training lacks its pair, or if trainings do not fit together.
 */
export function summarise(
  trainings: readonly Training[],
  facts: StudyFacts & { readonly workloads: readonly WorkloadFacts[] },
): StudyResults {
  return {
    format: RESULTS_FORMAT,
    version: RESULTS_VERSION,
    ...facts,
    workloads: facts.workloads.map(workload =>
      new WorkloadSummary(
        trainings.filter(training => training.workload === workload.name),
        facts.declared,
        workload,
      ).results(),
    ),
  };
}

/**
 * The learning rates that were tried for each method, with the best by the score, and by the log-loss among equal
 * scores. A rate with a training that diverged is never the best.
 *
 * @param trainings Of one workload. Only those for tuning count.
 */
export function tuningOf(trainings: readonly Training[], { kind, better }: Margin): TuningRow[] {
  const sign = better === 'higher' ? -1 : 1;
  const tuning = grouped(
    trainings.filter(({ isTuning }) => isTuning),
    ({ method }) => method,
  );
  return [...tuning].flatMap(([method, ofMethod]) => {
    const rows = [...grouped(ofMethod, ({ learningRate }) => learningRate)].map(([learningRate, tried]) => ({
      method,
      learningRate,
      seeds: [...new Set(tried.map(({ seed }) => seed))],
      mean: finite(backFrom(kind, mean(seedMeans(samplesOf(tried, ({ score }) => scaled(kind, score)))))),
      logLoss: finite(mean(seedMeans(samplesOf(tried, ({ logLoss }) => logLoss)))),
    }));
    const [best] = rows
      .filter(row => row.mean !== null)
      .sort((a, b) => sign * (a.mean! - b.mean!) || (a.logLoss ?? Infinity) - (b.logLoss ?? Infinity));
    return rows.map(row => ({ ...row, best: row === best }));
  });
}

/** The summary of one workload. */
class WorkloadSummary {
  private readonly margin: Margin;
  private readonly byMethod: ReadonlyMap<string, readonly Training[]>;
  private readonly baseline: readonly Training[];

  constructor(
    private readonly trainings: readonly Training[],
    private readonly declared: Declared,
    private readonly facts: WorkloadFacts,
  ) {
    const margin = declared.margins[facts.name];
    if (margin === undefined || !(margin.worse > 0)) {
      throw invalidArgument(`The declaration needs a margin above 0 for ${facts.name}.`);
    }
    this.margin = margin;
    this.byMethod = grouped(
      trainings.filter(({ isTuning }) => !isTuning),
      ({ method }) => method,
    );
    this.baseline = this.byMethod.get(declared.baseline) ?? [];
    if (this.baseline.length === 0) {
      throw invalidArgument(
        `${facts.name} has no trainings of ${declared.baseline}, which all others are compared with.`,
      );
    }
    for (const ofMethod of this.byMethod.values()) {
      checkPairs(ofMethod, this.baseline);
      ofMethod.forEach(training => this.check(training));
    }
  }

  results(): WorkloadResults {
    const { baseline, ablation } = this.declared;
    const controls = this.declared.controls[this.facts.name]!;
    const names = [...this.byMethod.keys()].filter(name => name !== baseline && !ablation?.methods.includes(name));
    const methods = [baseline, ...names].map(name => this.methodResults(name));
    return {
      ...this.facts,
      methods,
      controls: {
        sameMethod: this.control(methods, controls.sameMethod, ({ verdict, differenceFromDense }) => {
          const { low, high } = bounds(differenceFromDense);
          return verdict === 'passes' && low <= 0 && high >= 0;
        }),
        mustFail: this.control(methods, controls.mustFail, ({ verdict }) => verdict === 'fails'),
      },
      ablation: this.ablation(),
      tuning: tuningOf(this.trainings, this.margin),
    };
  }

  private ablation(): AblationResults[] {
    const { of: full, methods } = this.declared.ablation ?? { of: '', methods: [] };
    const ofFull = this.byMethod.get(full) ?? [];
    return methods
      .filter(name => this.byMethod.has(name))
      .map(name => {
        const ofMethod = this.byMethod.get(name)!;
        checkPairs(ofMethod, ofFull);
        return {
          ...this.methodResults(name),
          differenceFromFull: this.inUnit(this.overSeeds(ofMethod, ofFull, this.scaledScore)),
        };
      });
  }

  private methodResults(name: string): MethodResults {
    const trainings = this.byMethod.get(name)!;
    const [{ options, learningRate }] = trainings as [Training];
    const { confidence } = this.declared.tests;
    const { kind, better, worse } = this.margin;
    const score = meanInterval(seedMeans(samplesOf(trainings, this.scaledScore)), confidence);
    const logLoss = meanInterval(seedMeans(samplesOf(trainings, each => each.logLoss)), confidence);
    const diverged = trainings.filter(hasDiverged).length;
    const baselineDiverged = this.baseline.some(hasDiverged);
    const isBaseline = trainings === this.baseline;
    const overSeeds = this.overSeeds(trainings, this.baseline, this.scaledScore);
    const overExamples = diverged > 0 || baselineDiverged ? undefined : this.overExamples(trainings);
    const tolerance = { better, worse: kind === 'relative' ? Math.log1p(worse) : worse };
    const verdict = (): Verdict => {
      if (overExamples !== undefined) return verdictOf([overSeeds, overExamples], tolerance);
      return baselineDiverged ? 'undecided' : 'fails';
    };
    const whole = diverged < trainings.length ? trainings.filter(training => !hasDiverged(training)) : trainings;
    const interval = json({
      mean: backFrom(kind, score.mean),
      low: backFrom(kind, score.low),
      high: backFrom(kind, score.high),
    });
    return {
      name,
      options,
      learningRate,
      seeds: trainings.map(trainingResult),
      diverged,
      mean: interval?.mean ?? null,
      interval,
      logLoss: diverged > 0 ? null : json(logLoss),
      differenceFromDense: isBaseline ? null : this.inUnit(overSeeds),
      differenceOverExamples: isBaseline || overExamples === undefined ? null : this.inUnit(overExamples),
      logLossDifference:
        isBaseline || overExamples === undefined
          ? null
          : json(this.overSeeds(trainings, this.baseline, each => each.logLoss)),
      verdict: isBaseline ? null : verdict(),
      bytesSentPerRank: mean(whole.map(each => each.bytesSentPerRank)),
      ratio: diverged < trainings.length ? ratioOf(whole) : null,
      ratioAfterWarmUp: ratioAfterWarmUp(whole),
      ...(this.facts.paper?.[name] && { paper: this.facts.paper[name] }),
      seconds: mean(whole.map(({ seconds }) => seconds)),
    };
  }

  private control(
    methods: readonly MethodResults[],
    name: string,
    holds: (method: MethodResults) => boolean,
  ): ControlResult | null {
    const method = methods.find(each => each.name === name);
    return method === undefined ? null : { method: name, held: holds(method) };
  }

  /** On the scale of the tests: a logarithm if the margin is relative. */
  private readonly scaledScore = ({ score }: Training): number => scaled(this.margin.kind, score);

  private overSeeds(a: readonly Training[], b: readonly Training[], value: (training: Training) => number): Bounds {
    const differences = pairedDifferences(samplesOf(a, value), samplesOf(b, value));
    return meanInterval(seedMeans(differences), this.declared.tests.confidence);
  }

  /** The difference from the baseline of each test example, averaged over the seeds; the examples are drawn. */
  private overExamples(trainings: readonly Training[]): Bounds {
    const pairs = new Map(this.baseline.map(training => [pairOf(training), training]));
    const differences = [...grouped(trainings, ({ fold }) => fold).values()].flatMap(ofFold => {
      const sums = new Float64Array(ofFold[0]!.examples.length);
      for (const training of ofFold) {
        const dense = pairs.get(pairOf(training))!;
        sums.forEach((_, i) => (sums[i]! += training.examples[i]! - dense.examples[i]!));
      }
      return Array.from(sums, sum => sum / ofFold.length);
    });
    return bootstrapInterval(differences, this.declared.tests);
  }

  /** A difference on the scale of the tests, in the unit of the margin. */
  private inUnit({ mean: middle, low, high }: Bounds): Interval | null {
    const convert = this.margin.kind === 'relative' ? Math.expm1 : Number;
    return json({ mean: convert(middle), low: convert(low), high: convert(high) });
  }

  private check(training: Training): void {
    const { examples, fold, method } = training;
    const [first] = this.byMethod.get(method)!;
    if (settingsOf(training) !== settingsOf(first!)) {
      throw invalidArgument(
        `${wordsFor(training)} has other options or another learning rate than ${wordsFor(first!)}.`,
      );
    }
    if (hasDiverged(training)) return;
    const score = scaled(this.margin.kind, training.score);
    const found = mean(Array.from(examples));
    if (!(Math.abs(found - score) <= 1e-4 * Math.max(1, Math.abs(score)))) {
      throw invalidArgument(`${wordsFor(training)} has examples with the mean ${found}, but it should be ${score}.`);
    }
    const other = this.baseline.find(each => each.fold === fold && !hasDiverged(each));
    if (other !== undefined && other.examples.length !== examples.length) {
      const counts = `${examples.length} test examples, but ${wordsFor(other)} has ${other.examples.length}`;
      throw invalidArgument(`${wordsFor(training)} has ${counts}.`);
    }
  }
}

/** Checks that each training has its pair, and that no seed lacks a fold. */
function checkPairs(trainings: readonly Training[], baseline: readonly Training[]): void {
  const pairs = new Set(trainings.map(pairOf));
  const twice = trainings.find((training, i) => trainings.findIndex(each => pairOf(each) === pairOf(training)) < i);
  if (twice !== undefined) throw invalidArgument(`${wordsFor(twice)} is there twice.`);
  const [{ method, workload }] = trainings as [Training];
  const seeds = new Set(trainings.map(({ seed }) => seed));
  const expected = baseline.filter(({ seed }) => seeds.has(seed));
  const lacking = expected.find(training => !pairs.has(pairOf(training)));
  if (lacking !== undefined) throw invalidArgument(`${wordsFor({ ...lacking, method })} is missing.`);
  const known = new Set(expected.map(pairOf));
  const lonely = trainings.find(training => !known.has(pairOf(training)));
  if (lonely === undefined) return;
  const full = baseline[0]?.method ?? 'the full method';
  throw invalidArgument(`${wordsFor(lonely)} has no pair among those of ${full} on ${workload}.`);
}

function wordsFor({ workload, method, seed, fold }: Training): string {
  return `The training of ${workload} with ${method}, seed ${seed}, fold ${fold}`;
}

function pairOf({ seed, fold }: Training): string {
  return `${seed} ${fold}`;
}

function settingsOf({ options, learningRate }: Training): string {
  return JSON.stringify([options, learningRate]);
}

function hasDiverged({ score }: Training): boolean {
  return !Number.isFinite(score);
}

function grouped<Key>(trainings: readonly Training[], key: (training: Training) => Key): Map<Key, Training[]> {
  const groups = new Map<Key, Training[]>();
  for (const training of trainings) groups.set(key(training), [...(groups.get(key(training)) ?? []), training]);
  return groups;
}

function samplesOf(trainings: readonly Training[], value: (training: Training) => number): Sample[] {
  return trainings.map(training => ({ seed: training.seed, fold: training.fold, value: value(training) }));
}

function total(trainings: readonly Training[], value: (training: Training) => number): number {
  return trainings.reduce((sum, training) => sum + value(training), 0);
}

/** The scale on which scores are averaged and compared. */
function scaled(kind: Margin['kind'], score: number): number {
  return kind === 'relative' ? Math.log(score) : score;
}

/** The inverse of {@link scaled}. */
function backFrom(kind: Margin['kind'], value: number): number {
  return kind === 'relative' ? Math.exp(value) : value;
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** An interval without numbers that JSON cannot hold. */
function json({ mean: middle, low, high }: Bounds): Interval | null {
  return Number.isFinite(middle) ? { mean: middle, low: finite(low), high: finite(high) } : null;
}

/** The inverse of {@link json}. */
function bounds(interval: Interval | null): Bounds {
  if (interval === null) return { mean: NaN, low: NaN, high: NaN };
  return { mean: interval.mean, low: interval.low ?? -Infinity, high: interval.high ?? Infinity };
}

/** The bytes of the dense ring ÷ those sent. */
function ratioOf(trainings: readonly Training[]): number | null {
  return finite(total(trainings, each => each.denseBytesPerRank) / total(trainings, each => each.bytesSentPerRank));
}

/** The bytes of the dense ring ÷ those sent, in the last quarter of the steps. */
function ratioAfterWarmUp(trainings: readonly Training[]): number | null {
  const last = trainings.flatMap(({ curve: { step, bytes }, steps, denseBytesPerRank }) => {
    const from = step.findIndex(each => each >= 0.75 * steps);
    const to = step.length - 1;
    if (from < 0 || from === to) return [];
    return [{ dense: (denseBytesPerRank / steps) * (step[to]! - step[from]!), sent: bytes[to]! - bytes[from]! }];
  });
  const sent = last.reduce((sum, each) => sum + each.sent, 0);
  return sent > 0 ? last.reduce((sum, each) => sum + each.dense, 0) / sent : null;
}

function trainingResult(training: Training): TrainingResult {
  const { seed, fold, score, logLoss, bytesSentPerRank, steps, seconds, curve } = training;
  return {
    ...{ seed, fold, score: finite(score), logLoss: finite(logLoss), bytesSentPerRank, steps, seconds },
    curve: {
      step: curve.step,
      loss: curve.loss.map(short),
      error: curve.error.map(short),
      bytes: curve.bytes,
      seconds: curve.seconds.map(value => Number(value.toFixed(2))),
    },
  };
}

/** With as many digits as a chart can show. */
function short(value: number | null): number | null {
  return value === null ? null : finite(Number(value.toPrecision(5)));
}

import { availableParallelism, cpus, totalmem } from 'node:os';
import { readVersion } from '../version';
import type { Resampling, Tolerance, Verdict } from './statistics';

/** The `format` and `version` of the files that this gradring writes and reads. */
export const RESULTS_FORMAT = 'gradring study';
export const RESULTS_VERSION = 1;

/** What `gradring study --json` writes, and all that the page is made from. */
export interface StudyResults extends StudyFacts {
  readonly format: typeof RESULTS_FORMAT;
  readonly version: typeof RESULTS_VERSION;
  readonly workloads: readonly WorkloadResults[];
}

/** What is known of a study without its trainings. */
export interface StudyFacts {
  readonly machine: Machine;
  /** As `Date.toISOString` writes it. */
  readonly startedAt: string;
  readonly finishedAt: string;
  /** The command line. */
  readonly command: string;
  /** The hashes of the programs that trained: more than one if the code was changed before the study was complete. */
  readonly programs: readonly string[];
  /** How many ranks each training had. */
  readonly ranks: number;
  readonly declared: Declared;
  /** What the study does not show: a sentence each. */
  readonly limits: readonly string[];
}

/** Where a study ran. */
export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** `linux x64`. */
  readonly system: string;
  readonly node: string;
  readonly gradring: string;
}

/** What is fixed before the first training. */
export interface Declared {
  /** By the name of the workload. */
  readonly margins: Readonly<Record<string, Margin>>;
  /** The settings of a paired t-test over the seeds, and of a paired bootstrap over the test examples. */
  readonly tests: Resampling;
  /** The name of the method that all others are compared with. */
  readonly baseline: string;
  /** By the name of the workload. */
  readonly controls: Readonly<Record<string, Controls>>;
  /** Variants of a method, which are compared with it too. */
  readonly ablation?: { readonly of: string; readonly methods: readonly string[] };
  /** What a reader must know of the declaration, such as that it replaces another: a sentence each. */
  readonly notes: readonly string[];
}

/** The names of two methods that show whether a workload can tell methods apart. */
export interface Controls {
  /** The baseline once more. It must pass, and its interval over the seeds must include zero. */
  readonly sameMethod: string;
  /** A method that is known to be worse. It must fail. */
  readonly mustFail: string;
}

/** What a workload is scored by, and how much worse than the baseline still counts as no worse. */
export interface Margin extends Tolerance {
  readonly score: 'accuracy' | 'perplexity' | 'label error rate';
  /**
   * Whether `worse` is a difference of scores, as 0.003 for 0.3 points of accuracy, or a share of the baseline's score,
   * as 0.01 for 1 % of perplexity. Differences have the same unit.
   */
  readonly kind: 'absolute' | 'relative';
}

/** What is known of a workload without its trainings. */
export interface WorkloadFacts {
  readonly name: string;
  /** One line. It says "synthetic" if the data is. */
  readonly data: string;
  /** How many parameters the model has. */
  readonly parameters: number;
  /** How many ranks its trainings had, if not as many as those of the other workloads. */
  readonly ranks?: number;
  /** The compression ratios of a paper, by the name of the method: of another model and other data. */
  readonly paper?: Readonly<Record<string, PaperRatio>>;
}

/** A compression ratio as a paper gives it: the bytes of a gradient ÷ those of its compressed form. */
export interface PaperRatio {
  readonly ratio: number;
  /** `ResNet-50 on ImageNet`. */
  readonly model: string;
}

/** What a workload showed. */
export interface WorkloadResults extends WorkloadFacts {
  /** The baseline first. */
  readonly methods: readonly MethodResults[];
  readonly controls: { readonly sameMethod: ControlResult | null; readonly mustFail: ControlResult | null };
  readonly ablation: readonly AblationResults[];
  /** Every learning rate that was tried for a method, on seeds that the study does not use. */
  readonly tuning: readonly TuningRow[];
}

/**
 * What the trainings of a method showed. Intervals are two-sided, and over the seeds unless they say otherwise.
 * Differences are the method's value less the baseline's, over pairs of the same seed and fold. A difference of scores
 * is in the unit of the margin: of a relative one, it is a share of the baseline's score. What cannot be computed is
 * null: a difference of the baseline, or the mean of a method that diverged.
 */
export interface MethodResults {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly learningRate: number;
  readonly seeds: readonly TrainingResult[];
  /** How many of these trainings ended without a finite score. */
  readonly diverged: number;
  /** The mean score; the geometric mean if the margin is relative. */
  readonly mean: number | null;
  readonly interval: Interval | null;
  readonly logLoss: Interval | null;
  readonly differenceFromDense: Interval | null;
  /** The same difference with its interval over the test examples. */
  readonly differenceOverExamples: Interval | null;
  readonly logLossDifference: Interval | null;
  /** Null of the baseline. `fails` if this method diverged, and the baseline did not. */
  readonly verdict: Verdict | null;
  /** In one training, on average. Here and below, only trainings that did not diverge count, unless all did. */
  readonly bytesSentPerRank: number;
  /** The bytes of the dense ring in one training ÷ the bytes that a rank sent. Null if all diverged. */
  readonly ratio: number | null;
  /** The same for the last quarter of the steps. Null if the curves have too few points. */
  readonly ratioAfterWarmUp: number | null;
  readonly paper?: PaperRatio;
  /** The time of one training, on average. */
  readonly seconds: number;
}

/** Ends are null where the interval is unbounded: there was one seed only. */
export interface Interval {
  readonly mean: number;
  readonly low: number | null;
  readonly high: number | null;
}

/** One training. */
export interface TrainingResult {
  readonly seed: number;
  readonly fold: number;
  /** Null if the training diverged. */
  readonly score: number | null;
  readonly logLoss: number | null;
  readonly bytesSentPerRank: number;
  readonly steps: number;
  readonly seconds: number;
  readonly curve: Curve;
}

/** What a training reported on its way: arrays of one length. */
export interface Curve {
  readonly step: readonly number[];
  readonly loss: readonly (number | null)[];
  /** On the test set or a part of it: 1 − accuracy, perplexity, or label error rate. */
  readonly error: readonly (number | null)[];
  readonly bytes: readonly number[];
  readonly seconds: readonly number[];
}

/** Whether a control did what it must. */
export interface ControlResult {
  readonly method: string;
  readonly held: boolean;
}

/** A variant of a method. */
export interface AblationResults extends MethodResults {
  /** The difference of scores from the method that it is a variant of. */
  readonly differenceFromFull: Interval | null;
}

/** One learning rate that was tried for a method. */
export interface TuningRow {
  readonly method: string;
  readonly learningRate: number;
  readonly seeds: readonly number[];
  /** The mean score. It and the log-loss are null if a training diverged. */
  readonly mean: number | null;
  readonly logLoss: number | null;
  /** Whether it is the best of its method. */
  readonly best: boolean;
}

/** This machine, for {@link StudyFacts}. */
export function thisMachine(): Machine {
  return {
    processor: cpus()[0]?.model ?? 'unknown processor',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${process.platform} ${process.arch}`,
    node: process.version,
    gradring: readVersion(),
  };
}

import { uniformNumbers } from '../bench/random';
import { percentile, rounded } from '../bench/statistics';

/** A mean with the ends of its two-sided confidence interval. */
export interface Interval {
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

/** Whether a difference is within a margin of non-inferiority: {@link verdictOf}. */
export type Verdict = 'passes' | 'fails' | 'undecided';

/** The mean of at least one value. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * The quantile of Student's t distribution, to about 14 digits. The distribution function has a closed form for whole
 * degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4), which is inverted by bisection.
 *
 * @param probability Between 0 and 1, both excluded.
 * @param degreesOfFreedom A whole number from 1.
 */
export function studentQuantile(probability: number, degreesOfFreedom: number): number {
  const within = Math.abs(2 * probability - 1);
  let [low, high] = [0, Math.PI / 2];
  for (;;) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) break; // neighbours among the floating-point numbers
    if (shareWithin(middle, degreesOfFreedom) < within) low = middle;
    else high = middle;
  }
  return Math.sign(probability - 0.5) * Math.sqrt(degreesOfFreedom) * Math.tan(low);
}

/** The probability that |t| is at most √(degrees of freedom) · tan(angle). */
function shareWithin(angle: number, degreesOfFreedom: number): number {
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const isOdd = degreesOfFreedom % 2 === 1;
  let term = isOdd ? cos : 1;
  let sum = 0;
  for (let power = isOdd ? 1 : 0; power <= degreesOfFreedom - 2; power += 2) {
    sum += term;
    term *= ((power + 1) / (power + 2)) * cos * cos;
  }
  return isOdd ? (2 / Math.PI) * (angle + sin * sum) : sin * sum;
}

/**
 * The mean of independent values with its interval by Student's t. The interval of a single value is unbounded. If a
 * value is not finite, nothing of the result is a number.
 *
 * @param values At least one.
 * @param confidence The share of such intervals that hold the true mean: 0.95.
 */
export function meanInterval(values: readonly number[], confidence: number): Interval {
  if (!values.every(Number.isFinite)) return { mean: NaN, low: NaN, high: NaN };
  const middle = mean(values);
  if (values.length === 1) return { mean: middle, low: -Infinity, high: Infinity };
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const standardError = Math.sqrt(squares / (values.length - 1) / values.length);
  const reach = studentQuantile((1 + confidence) / 2, values.length - 1) * standardError;
  return { mean: middle, low: middle - reach, high: middle + reach };
}

/** One figure of one training. */
export interface Sample {
  readonly seed: number;
  readonly fold: number;
  readonly value: number;
}

/**
 * The mean over the folds of each seed, in the order in which the seeds first appear. The folds of a seed share most of
 * their training data, so they are not independent; seeds are the unit of all tests.
 */
export function seedMeans(samples: readonly Sample[]): number[] {
  const seeds = new Map<number, number[]>();
  for (const { seed, value } of samples) seeds.set(seed, [...(seeds.get(seed) ?? []), value]);
  return [...seeds.values()].map(mean);
}

/**
 * The differences `a − b` of trainings with the same seed and fold: one sample each.
 *
 * @param b Has at least the seeds and folds of `a`.
 */
export function pairedDifferences(a: readonly Sample[], b: readonly Sample[]): Sample[] {
  const others = new Map(b.map(({ seed, fold, value }) => [`${seed} ${fold}`, value]));
  return a.map(({ seed, fold, value }) => ({ seed, fold, value: value - others.get(`${seed} ${fold}`)! }));
}

/** How a bootstrap draws. */
export interface Resampling {
  /** The confidence of two-sided intervals: 0.95. */
  readonly confidence: number;
  /** How many times the examples are drawn. */
  readonly resamples: number;
  /** A uint32. The same seed draws the same examples. */
  readonly seed: number;
}

/**
 * The mean of values with its interval by the percentile bootstrap: the values are drawn with replacement many times,
 * and the ends are percentiles of the means. For differences of pairs this is the paired bootstrap, as both sides of a
 * pair are drawn together. (Efron and Tibshirani, _An Introduction to the Bootstrap_, chapter 13.)
 *
 * @param values At least one.
 */
export function bootstrapInterval(values: ArrayLike<number>, { confidence, resamples, seed }: Resampling): Interval {
  const random = uniformNumbers(seed);
  const { length } = values;
  const means = Array.from({ length: resamples }, () => {
    let sum = 0;
    for (let i = 0; i < length; i++) sum += values[Math.floor(random() * length)]!;
    return sum / length;
  });
  const tail = rounded(50 * (1 - confidence), 6);
  return { mean: mean(Array.from(values)), low: percentile(means, tail), high: percentile(means, 100 - tail) };
}

/** Which way a score is better, and how much worse still counts as no worse. */
export interface Tolerance {
  readonly better: 'higher' | 'lower';
  /** More than 0, in the unit of the differences. */
  readonly worse: number;
}

/**
 * Whether a difference from the baseline is non-inferior, by all intervals that are given:
 *
 * - `passes`: each whole interval is better than the margin.
 * - `fails`: each whole interval is worse than the margin.
 * - `undecided`: anything else, such as an interval across the margin.
 *
 * @param differences At least one, for example by the seeds and by the test examples.
 */
export function verdictOf(differences: readonly Interval[], { better, worse }: Tolerance): Verdict {
  const gains = differences.map(interval => gainOf(interval, better));
  if (gains.every(({ low }) => low > -worse)) return 'passes';
  if (gains.every(({ high }) => high < -worse)) return 'fails';
  return 'undecided';
}

/** A difference with its sign such that more is better. */
function gainOf({ mean: middle, low, high }: Interval, better: Tolerance['better']): Interval {
  return better === 'higher' ? { mean: middle, low, high } : { mean: -middle, low: -high, high: -low };
}

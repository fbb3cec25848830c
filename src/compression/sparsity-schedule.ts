import { GradringError } from '../errors';
import type { ChosenDgc, DgcCompression } from './dgc-options';

/** The densities of the paper's warm-up (section 3.3): sparsity 75 %, 93.75 %, 98.4375 %, 99.6 %, 99.9 %. */
const WARM_UP_DENSITIES = [0.25, 0.0625, 0.015625, 0.004, 0.001];

/** How far the training is, both counted from 0. */
export interface TrainingProgress {
  /** Undefined if not known. */
  readonly epoch: number | undefined;
  readonly step: number;
  /** How many steps each epoch has. Undefined if not known. */
  readonly stepsPerEpoch?: number | undefined;
}

/**
 * The fraction of each tensor that is sent at this point of the training, more than 0 and at most 1.
 *
 * After the warm-up it is 1 − sparsity. A sparse warm-up of length L (epochs or steps) has S stages: the densities
 * among 0.25, 0.0625, 0.015625, 0.004, 0.001 that are larger than the final one. Epoch or step p has stage ⌊p · S / L⌋:
 *
 * - final density 0.001, 4 epochs: S = 4, one stage an epoch, and 0.001 from epoch 4 on; with 8 epochs two epochs
 *   each;
 * - a smaller final density: S = 5; over 5 epochs each stage has one;
 * - a larger one has fewer, longer stages: 0.01 has S = 3, and over 4 epochs 0.25, 0.25, 0.0625, 0.015625;
 * - from 0.25 on S = 0: there is no warm-up, and the final density holds from the start;
 * - if L < S, the stages follow each other within the epochs, as far as the number of steps in an epoch is known. If
 *   it is not, some stages are left out, never the first.
 *
 * A dense warm-up has density 1 throughout.
 *
 * @throws ERR_NO_EPOCH if the warm-up is counted in epochs, and the epoch is not known.
 */
export function densityAt(spec: ChosenDgc, { epoch, step, stepsPerEpoch }: TrainingProgress): number {
  if (spec.warmUpEpochs > 0 && epoch === undefined) {
    throw new GradringError(
      'ERR_NO_EPOCH',
      `The warm-up of dgc() lasts ${spec.warmUpEpochs} epochs, but the current epoch is not known. ` +
        'Pass ring.callbacks() to model.fit, or call setEpoch(epoch) in a loop of your own, ' +
        'or give the length of the warm-up as dgc({ warmUpSteps }), or leave out sparsity and warm-up, as dgc({ steps })',
      { step },
    );
  }
  const final = finalDensity(spec);
  const length = spec.warmUpEpochs || spec.warmUpSteps;
  let position = spec.warmUpEpochs > 0 ? epoch! : step;
  if (position >= length) return final;
  if (spec.warmUp === 'dense') return 1;
  const stages = warmUpStages(spec);
  if (spec.warmUpEpochs > 0 && stepsPerEpoch !== undefined && stages.length > length) {
    const exact = step / stepsPerEpoch;
    if (Math.floor(exact) === epoch) position = exact; // not if earlier epochs had other numbers of steps
  }
  return stages[Math.floor((position * stages.length) / length)] ?? final;
}

/** The densities of a sparse warm-up, before the final one. */
export function warmUpStages(spec: ChosenDgc): readonly number[] {
  const final = finalDensity(spec);
  // 1 − 0.999 differs a little from the 0.001 of the list.
  return WARM_UP_DENSITIES.filter(density => density > final + Number.EPSILON);
}

/** 1 − 0.99 gives 0.010000000000000009. */
function finalDensity({ sparsity }: ChosenDgc): number {
  return Number((1 - sparsity).toPrecision(15));
}

/**
 * How many elements of a tensor are sent: max(1, ⌈elementCount · density⌉), and 0 for an empty tensor.
 *
 * The rounding error of a density that was computed as 1 − sparsity does not count: of 1000 elements at 1 − 0.999 =
 * 0.0010000000000000009, 1 is sent, not 2.
 */
export function sentCount(elementCount: number, density: number): number {
  if (elementCount === 0) return 0;
  // 1 − sparsity is wrong by at most 2⁻⁵⁴, and the product by 2⁻⁵³ of itself: together less than 2⁻⁵² an element.
  const count = Math.ceil(elementCount * density - elementCount * Number.EPSILON);
  return Math.min(elementCount, Math.max(1, count));
}

/** How often each element is sent in a training, on average. With less, too much of the gradient is not applied. */
const SENDS = 10;

/** The largest density that is chosen: that of the first stage of the paper's warm-up. */
export const LARGEST_DENSITY = 0.25;

/** The smallest, that of the paper. */
const SMALLEST_DENSITY = 0.001;

/** The fraction of the steps that a warm-up takes: 4 of 100 epochs. */
const WARM_UP_FRACTION = 0.04;

/** What the sparsity depends on. */
export interface ExpectedTraining {
  /** Optimizer steps of the whole training. Undefined if not known. */
  readonly steps: number | undefined;
  /** How many of them are done. */
  readonly step: number;
  /** Whether momentum is applied before the selection: with SGD and momentum, but not with Adam and others. */
  readonly correctsMomentum: boolean;
  /** How many steps share an exchange, in which each element may be sent once. Default 1. */
  readonly stepsPerExchange?: number;
}

/**
 * Completes a compression whose sparsity was not given.
 *
 * - S exchanges: the density is 10/S, at least 0.001 and at most 0.25, so that each element is sent about ten times.
 *   That is a sparsity of 0.75 up to 40 exchanges, 0.9 at 100, 0.99 at 1,000 and 0.999 from 10,000 on. From there on
 *   there is also a warm-up, of 4 % of the steps.
 * - S unknown: as if the training ended with the next step, so the density falls as 10/step.
 * - Adam and others that apply the compressed gradient themselves: a sparsity of 0.75 for any number of steps.
 *
 * A warm-up that the user gave is kept. docs/performance.md has the measurements.
 */
export function chooseSparsity(spec: DgcCompression, training: ExpectedTraining): ChosenDgc {
  const { steps, step, correctsMomentum, stepsPerExchange = 1 } = training;
  const { sparsity, warmUpEpochs } = spec;
  if (sparsity !== 'auto') return { ...spec, sparsity, warmUpEpochs: warmUpEpochs ?? 0 };
  if (!correctsMomentum) return { ...spec, sparsity: 1 - LARGEST_DENSITY, warmUpEpochs: warmUpEpochs ?? 0 };
  const exchanges = (steps ?? step + 1) / stepsPerExchange;
  const density = Math.min(LARGEST_DENSITY, Math.max(SMALLEST_DENSITY, SENDS / Math.max(1, exchanges)));
  const warmsUp = warmUpEpochs === undefined && steps !== undefined && density === SMALLEST_DENSITY;
  return {
    ...spec,
    sparsity: 1 - density,
    warmUpEpochs: warmUpEpochs ?? 0,
    warmUpSteps: warmsUp ? Math.round(WARM_UP_FRACTION * steps) : spec.warmUpSteps,
  };
}

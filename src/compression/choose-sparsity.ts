import type { ChosenDgc, DgcCompression } from './dgc-options';

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
}

/**
 * Completes a compression whose sparsity was not given.
 *
 * - S steps: the density is 10/S, at least 0.001 and at most 0.25, so that each element is sent about ten times. That
 *   is a sparsity of 0.75 up to 40 steps, 0.9 at 100, 0.99 at 1,000 and 0.999 from 10,000 on. From there on there is
 *   also a warm-up, of 4 % of the steps.
 * - S unknown: as if the training ended with the next step, so the density falls as 10/step.
 * - Adam and others that apply the compressed gradient themselves: a sparsity of 0.75 for any number of steps.
 *
 * A warm-up that the user gave is kept. docs/performance.md has the measurements.
 */
export function chooseSparsity(spec: DgcCompression, { steps, step, correctsMomentum }: ExpectedTraining): ChosenDgc {
  const { sparsity, warmUpEpochs } = spec;
  if (sparsity !== 'auto') return { ...spec, sparsity, warmUpEpochs: warmUpEpochs ?? 0 };
  if (!correctsMomentum) return { ...spec, sparsity: 1 - LARGEST_DENSITY, warmUpEpochs: warmUpEpochs ?? 0 };
  const density = Math.min(LARGEST_DENSITY, Math.max(SMALLEST_DENSITY, SENDS / Math.max(1, steps ?? step + 1)));
  const warmsUp = warmUpEpochs === undefined && steps !== undefined && density === SMALLEST_DENSITY;
  return {
    ...spec,
    sparsity: 1 - density,
    warmUpEpochs: warmUpEpochs ?? 0,
    warmUpSteps: warmsUp ? Math.round(WARM_UP_FRACTION * steps) : spec.warmUpSteps,
  };
}

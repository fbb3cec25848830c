import type { ChosenDgc, DgcCompression } from './dgc-options';

/** On average, each element is sent so many times in a training: fewer leave too much of the gradient unapplied. */
const SENDS = 10;

/** The most that is sent of a sparse tensor by choice: as in the first stage of the paper's warm-up. */
export const LARGEST_DENSITY = 0.25;

/** That of the paper. */
const SMALLEST_DENSITY = 0.001;

/** At the paper's sparsity the warm-up takes this fraction of the steps: as many as 4 of 100 epochs. */
const WARM_UP_FRACTION = 0.04;

/** What the sparsity is chosen by. */
export interface ExpectedTraining {
  /** Optimizer steps of the whole training; undefined if nobody said. */
  readonly steps: number | undefined;
  /** Those that are done. */
  readonly step: number;
  /** Whether momentum is applied before the selection, as it is for SGD and momentum, but not for Adam and others. */
  readonly correctsMomentum: boolean;
}

/**
 * Completes a compression whose sparsity was not given.
 *
 * - S steps: the density is 10/S, at least 0.001 and at most 0.25, so that each element is sent about ten times. That
 *   is a sparsity of 0.75 up to 40 steps, 0.9 at 100, 0.99 at 1,000 and 0.999 from 10,000 on. Only then there is a
 *   warm-up, of 4 % of the steps.
 * - S unknown: as if the training ended with the next step, so that the density falls with 10/step.
 * - Adam and others that apply the compressed gradient themselves: 0.75, however many steps.
 *
 * A warm-up that was given stays. docs/lab-notes/compression.md has the measurements.
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

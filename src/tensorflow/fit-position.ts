import type { Position } from '../core/saved-rank';
import { isBoolean, isCount, isNumber, isOptional, isOrNull, isWith } from '../shape';
import { areEarlyStops, type EarlyStop } from './early-stops';

/** Where in `model.fit` a checkpoint was taken. */
export interface FitPosition extends Position {
  /** How many rows of it are done, of all ranks together. Undefined if that is not known. */
  readonly row?: number | undefined;
  /** How many steps an epoch has. Null if that is not known before the first epoch ends. */
  readonly stepsPerEpoch?: number | null | undefined;
  /** Whether `model.fit` had no epoch left. */
  readonly isOver?: boolean;
  /** A `learningRateWarmUp` that is not over. */
  readonly warmUp?: { readonly step: number; readonly fullLearningRate: number } | undefined;
  /** The best value so far of the metric by which the best epoch is kept. */
  readonly best?: number | undefined;
  /** Of the callbacks for early stopping. */
  readonly earlyStops?: readonly EarlyStop[];
}

export const isFitPosition = isWith<FitPosition>({
  epoch: isCount,
  batch: isCount,
  row: isOptional(isCount),
  stepsPerEpoch: isOptional(isOrNull(isNumber)),
  isOver: isOptional(isBoolean),
  warmUp: isOptional(isWith({ step: isNumber, fullLearningRate: isNumber })),
  best: isOptional(isNumber),
  earlyStops: isOptional(areEarlyStops),
});

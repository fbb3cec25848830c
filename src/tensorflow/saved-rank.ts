import type { RankFile } from '../checkpoint/load-checkpoint';
import { GradringError } from '../errors';
import { isAnything, isBoolean, isCount, isListOf, isNumber, isOptional, isText, isWith } from '../shape';
import { areEarlyStops, type EarlyStop } from './early-stops';
import { isCounters, type OptimizerCounters } from './optimizer-state';

/** Where in `model.fit` a checkpoint was taken. */
export interface FitPosition {
  /** The epoch to continue with. */
  readonly epoch: number;
  /** How many batches of it are done. */
  readonly batch: number;
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

/** A variable of a training, as a checkpoint remembers it: in the order of the model. */
export interface SavedVariable {
  readonly name: string;
  /** The name that its layer gave it. TensorFlow.js adds `_1` to it if another variable of the process has it. */
  readonly given: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

const isSavedVariable = isWith<SavedVariable>({
  name: isText,
  given: isText,
  dtype: isText,
  shape: isListOf(isCount),
});

export const isFitPosition = isWith<FitPosition>({
  epoch: isCount,
  batch: isCount,
  row: isOptional(isCount),
  stepsPerEpoch: isOptional((value): value is number | null => value === null || isNumber(value)),
  isOver: isOptional(isBoolean),
  warmUp: isOptional(isWith({ step: isNumber, fullLearningRate: isNumber })),
  best: isOptional(isNumber),
  earlyStops: isOptional(areEarlyStops),
});

/** The small part of a rank's state: JSON, in the metadata of its file. */
export interface SavedRank {
  readonly position: FitPosition;
  readonly optimizer: OptimizerCounters;
  /** All variables of the training, in the order of the model. */
  readonly variables: readonly SavedVariable[];
  /** What the user saves. */
  readonly state?: unknown;
}

const isSavedRank = isWith<SavedRank>({
  position: isFitPosition,
  optimizer: isCounters,
  variables: isListOf(isSavedVariable),
  state: isAnything,
});

/** @throws GradringError `ERR_CHECKPOINT` if another program wrote the file. */
export function savedRankOf({ state }: RankFile): SavedRank {
  if (isSavedRank(state)) return state;
  throw new GradringError('ERR_CHECKPOINT', 'The files in the checkpoint hold no state of a wrapped optimizer.');
}

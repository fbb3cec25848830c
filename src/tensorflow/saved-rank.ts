import type { RankFile } from '../checkpoint/load-checkpoint';
import { GradringError } from '../errors';
import type { OptimizerCounters } from './optimizer-state';

/** Where in `model.fit` a checkpoint was taken. */
export interface FitPosition {
  /** The epoch to continue with. */
  readonly epoch: number;
  /** How many batches of it are done. */
  readonly batch: number;
  /** Whether `model.fit` had no epoch left. */
  readonly isOver?: boolean;
  /** A `learningRateWarmUp` that is not over. */
  readonly warmUp?: { readonly step: number; readonly fullLearningRate: number } | undefined;
}

/** A variable of a training, as a checkpoint remembers it: in the order of the model. */
export interface SavedVariable {
  readonly name: string;
  /** The name that its layer gave it. TensorFlow.js adds `_1` to it if another variable of the process has it. */
  readonly given: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** The small part of a rank's state: JSON, in the metadata of its file. */
export interface SavedRank {
  readonly position: FitPosition;
  readonly optimizer: OptimizerCounters;
  /** Of the whole training, in the order of the model. */
  readonly variables: readonly SavedVariable[];
  /** What the user saves. */
  readonly state?: unknown;
}

/** @throws GradringError `ERR_CHECKPOINT` if another program wrote the file. */
export function savedRankOf({ state }: RankFile): SavedRank {
  const { position, optimizer, variables } = (state ?? {}) as Partial<SavedRank>;
  const counts = [position?.epoch, position?.batch, optimizer?.steps, optimizer?.skippedSteps, optimizer?.iterations];
  const hasCounts = counts.every(count => Number.isSafeInteger(count) && count! >= 0);
  const { density, epoch = 0, learningRate = 0 } = optimizer ?? {};
  const hasNumbers = [density, epoch, learningRate].every(value => typeof value === 'number');
  const hasVariables = Array.isArray(variables) && variables.every(isVariable);
  if (hasCounts && hasNumbers && hasVariables && typeof optimizer?.optimizer === 'string') return state as SavedRank;
  throw new GradringError('ERR_CHECKPOINT', 'The files in the checkpoint hold no state of a wrapped optimizer.');
}

function isVariable(value: unknown): value is SavedVariable {
  const { name, given, dtype, shape } = (value ?? {}) as Partial<SavedVariable>;
  return [name, given, dtype].every(text => typeof text === 'string') && Array.isArray(shape);
}

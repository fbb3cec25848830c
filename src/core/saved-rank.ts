import type { RankFile } from '../checkpoint/load-checkpoint';
import { GradringError } from '../errors';
import { type Check, isAnything, isCount, isListOf, isText, isWith } from '../shape';
import { isCounters, type StepCounters } from './step-state';
import type { Described } from './replicas';

/** Where in a training a checkpoint was taken. */
export interface Position {
  /** The epoch to continue with. */
  readonly epoch: number;
  /** How many batches of it are done. */
  readonly batch: number;
}

/** A variable of a training, as a checkpoint remembers it: in the order of the model. */
export interface SavedVariable extends Described {
  /** The name that its layer gave it. TensorFlow.js adds `_1` to it if another variable of the process has it. */
  readonly given: string;
}

const isSavedVariable = isWith<SavedVariable>({
  name: isText,
  given: isText,
  dtype: isText,
  shape: isListOf(isCount),
});

export const isPosition = isWith<Position>({ epoch: isCount, batch: isCount });

/** The small part of a rank's state: JSON, in the metadata of its file. */
export interface SavedRank<P extends Position = Position> {
  readonly position: P;
  readonly optimizer: StepCounters;
  /** All variables of the training, in the order of the model. */
  readonly variables: readonly SavedVariable[];
  /** What the user saves. */
  readonly state?: unknown;
}

/**
 * The state of a rank, from its file.
 *
 * @param isPosition Whether a training goes on from such a place.
 * @throws GradringError `ERR_CHECKPOINT` if another program, or an older version, wrote the file.
 */
export function savedRankOf<P extends Position>({ state }: RankFile, isPosition: Check<P>): SavedRank<P> {
  const isSavedRank = isWith<SavedRank<P>>({
    position: isPosition,
    optimizer: isCounters,
    variables: isListOf(isSavedVariable),
    state: isAnything,
  });
  if (isSavedRank(state)) return state;
  const words =
    'The files in the checkpoint hold no state of a training that this version of gradring reads. If another version saved them, go on with that version.';
  throw new GradringError('ERR_CHECKPOINT', words);
}

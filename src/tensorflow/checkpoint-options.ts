import { checkOptions } from '../check-options';
import { invalidArgument } from '../errors';
import type { ResidualPolicy } from './resized-state';

/** How {@link Ring.checkpoint} saves and resumes. */
export interface CheckpointOptions {
  /** A folder, made if missing: shared by the ranks, or of the same name on each host's own disk. */
  readonly dir: string;
  /** `model.fit` saves when so many optimizer steps more are done. Default: at the end of each epoch. */
  readonly every?: number;
  /** How many complete checkpoints stay, from 1. Default 2, so that a damaged one has a predecessor. */
  readonly keep?: number;
  /**
   * What this rank wants back from {@link Checkpoint.resume}: small and plain JSON, such as the state of its random
   * numbers.
   */
  readonly state?: () => unknown;
  /**
   * What becomes of each rank's own u and v (momentum and what is not sent yet) in a ring of another size than the one
   * that saved. `redistribute`: they are shared out so that their mean over the ranks, which is what the update is made
   * of, stays. `drop`: they begin at zero. Default: `ERR_CHECKPOINT`. What all ranks have in common stays in any case.
   */
  readonly residuals?: ResidualPolicy;
  /**
   * If the newest is damaged: `ERR_CHECKPOINT_DAMAGED`, or the newest before it that is whole on all ranks. Default
   * `error`.
   */
  readonly onDamage?: 'error' | 'previous';
  /**
   * If a checkpoint of `model.fit` cannot be written: stop with `ERR_CHECKPOINT`, or warn and train on. Default `stop`.
   */
  readonly onFailure?: 'stop' | 'continue';
}

/** Where {@link Checkpoint.resume} has gone back to. */
export interface ResumedPosition {
  /** Optimizer steps done. 0 where there was no checkpoint. */
  readonly step: number;
  /** The epoch to go on with: `initialEpoch` of `model.fit`, or the last that `setEpoch` was told. */
  readonly epoch: number;
  /** Batches of that epoch that `model.fit` had done; 0 in a custom loop. */
  readonly batch: number;
  /** What the option `state` had given on this rank; undefined on a rank that the saving ring did not have. */
  readonly state: unknown;
  /** Of the checkpoint. Undefined where there was none. */
  readonly path: string | undefined;
  /** Why newer ones were passed over, with `onDamage: 'previous'`. */
  readonly skipped: readonly string[];
}

const NAMES = {
  ...{ dir: true, every: true, keep: true, state: true },
  ...{ residuals: true, onDamage: true, onFailure: true },
} as const satisfies Record<keyof CheckpointOptions, true>;

/** @throws GradringError `ERR_INVALID_ARGUMENT`. */
export function checkCheckpointOptions(options: CheckpointOptions): void {
  if (options === undefined) throw invalidArgument('ring.checkpoint(model, { dir }) needs dir, the path of a folder.');
  checkOptions('ring.checkpoint', options, NAMES);
  const { dir, every, keep, state, residuals, onDamage, onFailure } = options;
  if (typeof dir !== 'string' || dir === '')
    throw invalidArgument('ring.checkpoint(model, { dir }) needs dir, the path of a folder.');
  requireCount('every', every);
  requireCount('keep', keep);
  if (state !== undefined && typeof state !== 'function') throw invalidArgument('state must be a function.');
  requireOneOf('residuals', residuals, ['redistribute', 'drop']);
  requireOneOf('onDamage', onDamage, ['error', 'previous']);
  requireOneOf('onFailure', onFailure, ['stop', 'continue']);
}

function requireCount(name: string, value: number | undefined): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) return;
  throw invalidArgument(`${name} is ${value}; it must be a whole number from 1 on.`);
}

function requireOneOf(name: string, value: string | undefined, values: readonly string[]): void {
  if (value === undefined || values.includes(value)) return;
  throw invalidArgument(`${name} is '${value}'; it must be '${values.join("' or '")}'.`);
}

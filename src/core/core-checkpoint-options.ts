import { requireBoolean, requireCount, requireOneOf } from '../check-options';
import { invalidArgument } from '../errors';
import type { ResidualPolicy } from './resized-state';

/** How checkpoints are saved and resumed. */
export interface CoreCheckpointOptions {
  /**
   * The folder, created if it is missing: shared by the ranks, or of the same name on the disk of each host. A relative
   * path means the working folder when `ring.checkpoint` is called.
   */
  readonly dir: string;
  /** `afterStep` and `model.fit` save every so many optimizer steps. Default: `model.fit` saves after each epoch. */
  readonly every?: number;
  /** How many complete checkpoints to keep, 1 or more. Default 2, so that there is one before a damaged one. */
  readonly keep?: number;
  /**
   * `model.fit` and `checkpoint.afterStep` write checkpoints while the training goes on. The state is copied at its
   * step, so it needs the memory for that. All ranks complete the checkpoint after a later step, when the files of all
   * are on the disk; until then a crash leaves the checkpoint before. A training waits for the disk only if the next
   * save is due before. An error in writing is raised after a later step. Default false.
   */
  readonly background?: boolean;
  /**
   * Returns what this rank wants back from `checkpoint.resume`: small, plain JSON, such as the state of its random
   * numbers.
   */
  readonly state?: () => unknown;
  /**
   * What happens to each rank's momenta and residuals if the ring has another size than the one that saved.
   * `redistribute`: they are divided between the ranks so that their mean, from which the update is made, stays the
   * same. `drop`: they begin at zero. Default: `ERR_CHECKPOINT`; in an elastic run `redistribute`. What all ranks have
   * in common is kept in any case.
   */
  readonly residuals?: ResidualPolicy;
  /**
   * If the newest checkpoint is damaged: `error` raises `ERR_CHECKPOINT_DAMAGED`; `previous` takes the newest earlier
   * one that is complete on all ranks. Default `error`.
   */
  readonly onDamage?: 'error' | 'previous';
  /**
   * If a checkpoint that is due cannot be written: `stop` raises `ERR_CHECKPOINT`; `continue` prints a warning and
   * trains on. Default `stop`.
   */
  readonly onFailure?: 'stop' | 'continue';
  /**
   * While `model.fit` or a loop with `afterStep` trains: if a rank gets SIGTERM or SIGUSR1, or if its time is over
   * (`stopAfter` of `connect`), all ranks save after the same step, and end with exit code 75. `false`: the signals do
   * what they do otherwise. Default true.
   */
  readonly saveOnStop?: boolean;
}

/** Where in the training `checkpoint.resume` continues. */
export interface ResumedPosition {
  /** How many optimizer steps are done; 0 if there was no checkpoint. */
  readonly step: number;
  /** The epoch to continue with: `initialEpoch` of `model.fit`, or the last epoch given to `setEpoch`. */
  readonly epoch: number;
  /** How many batches of that epoch `model.fit` had done; 0 in a custom loop. */
  readonly batch: number;
  /** What the option `state` had returned on this rank; undefined on a rank that the saving ring did not have. */
  readonly state: unknown;
  /** The folder of the checkpoint; undefined if there was none. */
  readonly path: string | undefined;
  /** Why newer checkpoints were not taken, with `onDamage: 'previous'`. */
  readonly skipped: readonly string[];
}

export const CORE_CHECKPOINT_NAMES = {
  ...{ dir: true, every: true, keep: true, background: true, state: true },
  ...{ residuals: true, onDamage: true, onFailure: true, saveOnStop: true },
} as const satisfies Record<keyof CoreCheckpointOptions, true>;

/**
 * Checks what the names of the options do not tell.
 *
 * @param call The call, as the user writes it: `ring.checkpoint(model, { dir })`.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function checkCoreCheckpointOptions(call: string, options: CoreCheckpointOptions): void {
  const { dir, every, keep, background, saveOnStop, state, residuals, onDamage, onFailure } = options;
  if (typeof dir !== 'string' || dir === '') throw invalidArgument(`${call} needs dir, the path of a folder.`);
  requireCount('every', every);
  requireCount('keep', keep);
  requireBoolean('background', background);
  requireBoolean('saveOnStop', saveOnStop);
  if (state !== undefined && typeof state !== 'function') throw invalidArgument('state must be a function.');
  requireOneOf('residuals', residuals, ['redistribute', 'drop']);
  requireOneOf('onDamage', onDamage, ['error', 'previous']);
  requireOneOf('onFailure', onFailure, ['stop', 'continue']);
}

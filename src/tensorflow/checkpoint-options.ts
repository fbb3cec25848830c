import { checkOptions } from '../check-options';
import {
  checkCoreCheckpointOptions,
  CORE_CHECKPOINT_NAMES,
  type CoreCheckpointOptions,
} from '../core/core-checkpoint-options';
import { invalidArgument } from '../errors';

/** How {@link Ring.checkpoint} saves and resumes. */
export interface CheckpointOptions extends CoreCheckpointOptions {
  /**
   * A metric of `model.fit`, such as `val_loss`. The checkpoint of the epoch with the best value so far is kept in the
   * folder `best` within `dir`, beside the newest ones: `resume({ best: true })` goes back to it. More is better if the
   * name has `acc` in it, as for `tf.callbacks.earlyStopping`; otherwise less, unless `mode` says it.
   */
  readonly best?: string | { readonly metric: string; readonly mode: 'min' | 'max' };
}

/** Which checkpoint {@link Checkpoint.resume} goes back to. */
export interface ResumeOptions {
  /** That of the best epoch, which the option `best` of {@link Ring.checkpoint} keeps. Default: the newest. */
  readonly best?: boolean;
}

/** @throws GradringError `ERR_INVALID_ARGUMENT`. */
export function checkCheckpointOptions(options: CheckpointOptions): void {
  const call = 'ring.checkpoint(model, { dir })';
  if (options === undefined) throw invalidArgument(`${call} needs dir, the path of a folder.`);
  checkOptions('ring.checkpoint', options, { ...CORE_CHECKPOINT_NAMES, best: true });
  checkCoreCheckpointOptions(call, options);
  if (options.best !== undefined) checkBest(options.best);
}

function checkBest(best: NonNullable<CheckpointOptions['best']>): void {
  if (typeof best === 'string') return;
  checkOptions('best', best, { metric: true, mode: true });
  const { metric, mode } = best;
  if (typeof metric !== 'string') throw invalidArgument(`best.metric is ${String(metric)}; it must be a name.`);
  if (mode !== 'min' && mode !== 'max') throw invalidArgument(`best.mode is '${String(mode)}'; it must be min or max.`);
}

/** A metric of an epoch, and which of its values is the best. */
export type BestMetric = Exclude<NonNullable<CheckpointOptions['best']>, string>;

/** The option `best` in full. */
export function bestMetricOf({ best }: CheckpointOptions): BestMetric | undefined {
  if (typeof best !== 'string') return best;
  return { metric: best, mode: best.includes('acc') ? 'max' : 'min' };
}

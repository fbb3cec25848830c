import type { tf } from './tfjs';
import { join } from 'node:path';
import { checkOptions } from '../check-options';
import type { TensorFile, TensorSource } from '../checkpoint/checkpoint-file';
import type { SaveFolder } from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import type { ResumedPosition } from '../core/core-checkpoint-options';
import type { StepState } from '../core/step-state';
import { hashOf } from '../core/replicas';
import type { Resizing } from '../core/resized-state';
import {
  type CheckpointedVariable,
  type CheckpointSource,
  TrainingCheckpoint,
  type TrainingFit,
} from '../core/training-checkpoint';
import {
  type BestMetric,
  bestMetricOf,
  checkCheckpointOptions,
  type CheckpointOptions,
  type ResumeOptions,
} from './checkpoint-options';
import { type FitPosition, isFitPosition } from './fit-position';
import { LiveTraining } from './live-training';
import { isOwnModel } from './one-copy';
import { type OptimizerState, sourcesOf, tensorStatesOf, waitingSums } from './optimizer-state';
import type { OptimizerSteps } from './optimizer-steps';
import { broadcastVariables } from './variables';
import { checkSameVariables } from '../core/replicas';
import { restoreVariable, sourceOf } from './tensor-source';
import { type Trained, trainedOf, type Training } from './trained';

/**
 * Saves a training and resumes it bit for bit: the weights, the momenta and residuals of each rank, the state of the
 * inner optimizer, counters, the learning rate, and what the user adds. Made by {@link Ring.checkpoint}. All ranks must
 * save together, and resume together.
 *
 * ```ts
 * const checkpoint = ring.checkpoint(model, { dir: 'checkpoints' });
 * const { epoch } = await checkpoint.resume();
 * console.log(epoch); // 0
 * await model.fit(...ring.shard(x, y), { epochs, initialEpoch: epoch, callbacks: ring.callbacks({ checkpoint }) });
 * ```
 */
export class Checkpoint {
  /** @internal */
  readonly training: TrainingCheckpoint<OptimizerState, FitPosition>;
  /** Where `model.fit` will continue, until it does. */
  private resumedAt: FitPosition | undefined;
  /** @internal By which metric the best epoch is kept. */
  readonly bestMetric: BestMetric | undefined;
  /** @internal Its best value so far. */
  bestSoFar: number | undefined;

  constructor(
    private readonly communicator: Communicator,
    private readonly source: tf.LayersModel | Trained,
    private readonly options: CheckpointOptions,
  ) {
    trainedOf(source, 'ring.checkpoint');
    checkCheckpointOptions(options);
    this.bestMetric = bestMetricOf(options);
    this.training = new TrainingCheckpoint(communicator, new CheckpointedModel(communicator, source), options);
  }

  /**
   * Saves now, and returns the folder of the new checkpoint. Await it before the next step. It returns when the
   * checkpoint is complete on all ranks; a crash at any instant before that leaves the checkpoint before.
   *
   * @throws GradringError `ERR_CHECKPOINT` on every rank if one rank cannot write, with that rank and the path. The
   *   training may continue. `ERR_CHECKPOINT_IN_USE` if another run, or another checkpoint of this program, uses the
   *   folder. `ERR_INVALID_ARGUMENT` for a `state` that JSON would change, with the place in it. And what every
   *   collective may throw (see {@link Communicator}).
   */
  async save(): Promise<string> {
    return this.training.save();
  }

  /**
   * Goes back to the newest checkpoint that is complete on all ranks. If there is none, all ranks get the weights of
   * rank 0, and begin. With `best: true` it is that of the best epoch. Call it before the first step, when the model is
   * compiled or the optimizer is wrapped. Until {@link Ring.close}, no other run may use the folder.
   *
   * @throws GradringError `ERR_CHECKPOINT_DAMAGED` on every rank, with the path and the reason, unless `onDamage:
   *   'previous'` finds another checkpoint; `ERR_CHECKPOINT` if a file cannot be read, or if the ring has another size
   *   and the option `residuals` is not given; `ERR_CHECKPOINT_IN_USE` if another run uses the folder;
   *   `ERR_MODEL_MISMATCH` if the model is another one, or not the same on all ranks. And what every collective may
   *   throw.
   */
  async resume(options: ResumeOptions = {}): Promise<ResumedPosition> {
    checkOptions('checkpoint.resume', options, { best: true });
    const live = LiveTraining.of(this.communicator);
    if (this.communicator.isNewcomer) {
      const joined = await live.join(this.trained());
      return { ...joined, batch: 0, state: undefined, path: undefined, skipped: [] };
    }
    live.begin(this.trained());
    const { dir } = options.best === true ? this.bestFolder : this.training.folder;
    const { resumed, position } = await this.training.resumeFrom(dir);
    if (position !== undefined) this.resumedAt = position;
    return resumed;
  }

  /**
   * Completes the checkpoints that the option `background` still writes. All ranks call it after the last step of a
   * loop. `model.fit` does it by itself.
   *
   * @returns Their folders. None if there was nothing to complete, or if a rank was lost before that.
   * @throws what {@link save} throws.
   */
  async finish(): Promise<string[]> {
    return this.training.finish();
  }

  /**
   * Does what is due after a step of your own loop, as `model.fit` does it by itself. All ranks await it after each
   * step, and before the next. It saves if the option `every` says so. If a rank was told to stop meanwhile, by SIGTERM
   * or SIGUSR1, or because its time is over (`stopAfter` of {@link connect}), all ranks save after the same step, and
   * end with exit code 75. Call it before {@link Ring.commit}, and use one checkpoint for all that the loop trains.
   *
   * From the first call until {@link Ring.close}, these signals do not end the process at once.
   *
   * ```ts
   * const w = tf.variable(tf.zeros([10]), true, 'trained in a loop');
   * const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: noCompression() });
   * const checkpoint = ring.checkpoint({ variables: [w], optimizer }, { dir: 'checkpoints', every: 100 });
   * for (let step = 0; step < 4; step++) {
   *   await optimizer.minimizeAsync(() => w.sub(ring.rank).square().mean());
   *   await checkpoint.afterStep();
   * }
   * console.log(optimizer.statistics.steps); // 4
   * optimizer.dispose();
   * ```
   *
   * @throws what {@link save} throws.
   */
  async afterStep(): Promise<void> {
    await this.training.afterStep();
  }

  /**
   * Takes the place where `model.fit` continues. Undefined if it was taken already, or nothing was resumed.
   *
   * @internal
   */
  takeResumedPosition(): FitPosition | undefined {
    const position = this.resumedAt;
    this.resumedAt = undefined;
    return position;
  }

  /**
   * {@link afterStep} within `model.fit`.
   *
   * @param isBest Whether the epoch that has just ended is the best so far.
   * @internal
   */
  async afterBatch(position: FitPosition, isBest: boolean): Promise<void> {
    const { training } = this;
    const { every } = this.options;
    const isDue = every === undefined ? position.batch === 0 : training.isAtStep(every);
    await training.saveIfDue(position, [...(isBest ? [this.bestFolder] : []), ...(isDue ? [training.folder] : [])]);
  }

  private get bestFolder(): SaveFolder {
    return { dir: join(this.training.folder.dir, 'best'), keep: 1 };
  }

  private trained(): Training {
    return trainedOf(this.source, 'ring.checkpoint');
  }
}

/** A model or the variables of a loop, as a checkpoint uses them. */
class CheckpointedModel implements CheckpointSource<OptimizerState, FitPosition> {
  constructor(
    private readonly communicator: Communicator,
    private readonly source: tf.LayersModel | Trained,
  ) {}

  get steps(): OptimizerSteps {
    return this.trained().steps;
  }

  variables(): CheckpointedVariable[] {
    const weights = isOwnModel(this.source) ? this.source.weights : [];
    return this.trained().variables.map((variable, i) => {
      const { name, dtype, shape } = variable;
      return {
        ...{ name, given: weights[i]?.originalName ?? name, dtype, shape },
        source: savedName => sourceOf(savedName, variable),
        hash: () => hashOf(variable, variable.dataSync() as ArrayBufferView),
        assign: read => restoreVariable(variable, read),
      };
    });
  }

  fit(): TrainingFit<FitPosition> {
    return {
      optimizer: this.steps.inner.className,
      isPosition: isFitPosition,
      lastingName: withoutCounters,
      advice:
        'Variables are matched by name, or by their order if only the counters of TensorFlow.js in their names differ. Build the model as it was, or give its layers the names that they had.',
    };
  }

  sourcesOf(state: OptimizerState): TensorSource[] {
    return sourcesOf(state);
  }

  stateOf(state: StepState, files: readonly TensorFile[], resizing: Resizing): OptimizerState {
    return { ...state, sums: waitingSums(files, resizing), ...tensorStatesOf(files[0]!.tensors) };
  }

  async beginAlike(): Promise<void> {
    await checkSameVariables(this.communicator, this.trained().variables, Purpose.ResumeCheckpoint);
    await this.broadcastVariables();
  }

  async broadcastVariables(): Promise<void> {
    const { variables } = this.trained();
    await broadcastVariables(this.communicator, variables, { root: 0, purpose: Purpose.ResumeCheckpoint });
  }

  private trained(): Training {
    return trainedOf(this.source, 'ring.checkpoint');
  }
}

/**
 * A name without what TensorFlow.js counts in it: `dense_Dense/kernel` for a layer that it has called `dense_Dense7`,
 * because it was given no name, and nothing for a variable that it has called `7`. A model that is built or loaded for
 * the second time in a process has other counters in its names.
 */
function withoutCounters(name: string): string {
  const layer = /(?<=^|\/)(\w+)_([A-Z]\w*?)\d+(?=\/|$)/g;
  const isOwnName = (prefix: string, className: string) => prefix.replaceAll('_', '').endsWith(className.toLowerCase());
  return name
    .replace(/^\d+$/, '')
    .replace(layer, (whole, prefix: string, className: string) =>
      isOwnName(prefix, className) ? `${prefix}_${className}` : whole,
    );
}

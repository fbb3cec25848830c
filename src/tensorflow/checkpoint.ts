import type { tf } from './tfjs';
import { join } from 'node:path';
import { checkOptions } from '../check-options';
import type { TensorFile, TensorSource } from '../checkpoint/checkpoint-file';
import type { SaveFolder } from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import type { ResumedPosition } from '../core/checkpoint-options';
import type { StepState } from '../core/optimizer-state';
import { hashOf } from '../core/replicas';
import type { Resizing } from '../core/resized-state';
import { type CheckpointedVariable, TrainingCheckpoint, type TrainingFit } from '../core/training-checkpoint';
import {
  type BestMetric,
  bestMetricOf,
  checkCheckpointOptions,
  type CheckpointOptions,
  type ResumeOptions,
} from './checkpoint-options';
import type { FitPosition } from './fit-position';
import { LiveTraining } from './live-training';
import { type OptimizerState, sourcesOf, tensorStatesOf } from './optimizer-state';
import { broadcastVariables } from './replicas';
import { waitingSums } from './resized-state';
import { fitOf, savedVariables } from './saved-variables';
import { restoreVariable, sourceOf } from './saved-tensor';
import { type Trained, trainedOf, type Training } from './trained';
import type { TrainedOptimizer } from './trained-optimizer';

/**
 * Saves a training and resumes it bit for bit: the weights, the momenta and residuals of each rank, the state of the
 * inner optimizer, counters, the learning rate, and what the user adds. Made by {@link Ring.checkpoint}. All ranks must
 * save together, and resume together.
 *
 * ```ts
 * const checkpoint = ring.checkpoint(model, { dir: 'checkpoints' });
 * const { epoch } = await checkpoint.resume();
 * console.log(epoch); // 0
 * await model.fit(x, y, { epochs, initialEpoch: epoch, callbacks: ring.callbacks({ checkpoint }) });
 * ```
 */
export class Checkpoint extends TrainingCheckpoint<OptimizerState, FitPosition> {
  /** Where `model.fit` will continue, until it does. */
  private resumedAt: FitPosition | undefined;
  /**
   * The best value so far of the option `best`.
   *
   * @internal
   */
  bestSoFar: number | undefined;

  constructor(
    communicator: Communicator,
    private readonly source: tf.LayersModel | Trained,
    private readonly checked: CheckpointOptions,
  ) {
    trainedOf(source, 'ring.checkpoint');
    checkCheckpointOptions(checked);
    super(communicator, checked);
  }

  /**
   * Goes back to the newest checkpoint that is complete on all ranks. Changes nothing in the training if there is none.
   * With `best: true` it is that of the best epoch. Call it before the first step, when the model is compiled or the
   * optimizer is wrapped. Until {@link Ring.close}, no other run may use the folder.
   *
   * @throws GradringError `ERR_CHECKPOINT_DAMAGED` on every rank, with the path and the reason, unless `onDamage:
   *   'previous'` finds another checkpoint; `ERR_CHECKPOINT` if a file cannot be read, or if the ring has another size
   *   and the option `residuals` is not given; `ERR_CHECKPOINT_IN_USE` if another run uses the folder;
   *   `ERR_MODEL_MISMATCH` if the model is another one. And what every collective may throw.
   */
  async resume(options: ResumeOptions = {}): Promise<ResumedPosition> {
    checkOptions('checkpoint.resume', options, { best: true });
    const live = LiveTraining.of(this.communicator);
    if (this.communicator.generation === -1) {
      const joined = await live.join(this.trained());
      return { ...joined, batch: 0, state: undefined, path: undefined, skipped: [] };
    }
    live.begin(this.trained());
    const { dir } = options.best === true ? this.bestFolder : this.folder;
    const { resumed, position } = await this.resumeFrom(dir);
    if (position !== undefined) this.resumedAt = position;
    return resumed;
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
  override async afterStep(): Promise<void> {
    return super.afterStep();
  }

  /**
   * By which metric the best epoch is kept.
   *
   * @internal
   */
  get bestMetric(): BestMetric | undefined {
    return bestMetricOf(this.checked);
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
    const { every } = this.checked;
    const isDue = every === undefined ? position.batch === 0 : this.isAtStep(every);
    await this.saveIfDue(position, [...(isBest ? [this.bestFolder] : []), ...(isDue ? [this.folder] : [])]);
  }

  /**
   * `model.fit` has no more steps.
   *
   * @internal
   */
  async endFit(): Promise<void> {
    await this.trySave(() => this.finish());
  }

  private get bestFolder(): SaveFolder {
    return { dir: join(this.folder.dir, 'best'), keep: 1 };
  }

  protected override get steps(): TrainedOptimizer {
    return this.trained().optimizer;
  }

  protected override variables(): CheckpointedVariable[] {
    const { variables } = this.trained();
    return savedVariables(this.source, variables).map((saved, i) => {
      const variable = variables[i]!;
      return {
        ...saved,
        source: name => sourceOf(name, variable),
        hash: () => hashOf(variable, variable.dataSync() as ArrayBufferView),
        assign: read => restoreVariable(variable, read),
      };
    });
  }

  protected override fit(): TrainingFit<FitPosition> {
    return fitOf(this.steps.getClassName());
  }

  protected override positionAt(epoch: number): FitPosition {
    return { epoch, batch: 0 };
  }

  protected override sourcesOf(state: OptimizerState): TensorSource[] {
    return sourcesOf(state);
  }

  protected override stateOf(state: StepState, files: readonly TensorFile[], resizing: Resizing): OptimizerState {
    return { ...state, sums: waitingSums(files, resizing), ...tensorStatesOf(files[0]!.tensors) };
  }

  protected override async broadcastVariables(): Promise<void> {
    const { variables } = this.trained();
    await broadcastVariables(this.communicator, variables, { root: 0, purpose: Purpose.ResumeCheckpoint });
  }

  private trained(): Training {
    return trainedOf(this.source, 'ring.checkpoint');
  }
}

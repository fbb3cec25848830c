import { checkOptions } from '../check-options';
import { join, resolve } from 'node:path';
import type { tf } from './tfjs';
import { type LoadedCheckpoint, loadCheckpoint } from '../checkpoint/load-checkpoint';
import { FolderLock } from '../checkpoint/folder-lock';
import type { SaveFolder } from '../checkpoint/save-checkpoint';
import { CheckpointWriter } from './checkpoint-writer';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError } from '../errors';
import { STOPPED_EXIT_CODE } from '../communicator/stop-request';
import {
  type BestMetric,
  bestMetricOf,
  checkCheckpointOptions,
  type CheckpointOptions,
  type ResumedPosition,
  type ResumeOptions,
} from './checkpoint-options';
import { type FitPosition, type SavedRank, savedRankOf } from './saved-rank';
import { LiveTraining } from './live-training';
import { tensorStatesOf } from './optimizer-state';
import { broadcastVariables } from './replicas';
import { ranksToRead, resizedCounters, type Resizing, variableStates, waitingSums } from './resized-state';
import { type Trained, trainedOf, type Training } from './trained';
import { restoreVariable, tensorsUnder } from './saved-tensor';
import { fitted } from './saved-variables';
import { Notice } from './step-notices';

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
export class Checkpoint {
  /** Where `model.fit` will continue, until it does. */
  private resumedAt: FitPosition | undefined;
  /** Damaged checkpoints that were skipped. The next save removes them. */
  private discarded: readonly string[] = [];
  /** With an absolute `dir`: the program may change its working folder. */
  private readonly options: CheckpointOptions;
  private readonly lock: FolderLock;
  private readonly writer: CheckpointWriter;
  /**
   * The best value so far of the option `best`.
   *
   * @internal
   */
  bestSoFar: number | undefined;

  constructor(
    private readonly communicator: Communicator,
    private readonly source: tf.LayersModel | Trained,
    options: CheckpointOptions,
  ) {
    trainedOf(source, 'ring.checkpoint');
    checkCheckpointOptions(options);
    this.options = { ...options, dir: resolve(options.dir) };
    const lock = new FolderLock(this.options.dir, communicator.runId);
    communicator.atClose.push(() => {
      lock.release();
      this.writer.close();
    });
    this.lock = lock;
    this.writer = new CheckpointWriter(communicator, source, lock, () => options.state?.());
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
    if (this.options.background === true) await this.finish(); // otherwise a step must notice at once that this saves
    return this.writer.save(this.positionInLoop, this.folder);
  }

  /**
   * Completes the checkpoints that the option `background` still writes. All ranks call it after the last step of a
   * loop; `model.fit` does it by itself.
   *
   * @returns Their folders. None if there was nothing to complete, or if a rank that was writing is lost.
   * @throws What {@link save} throws.
   */
  async finish(): Promise<string[]> {
    return this.options.background === true ? this.writer.finish() : [];
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
    await this.finish();
    live.begin(this.trained());
    return live.inTurn(() => this.resumeFrom((options.best === true ? this.bestFolder : this.folder).dir));
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
    this.beginLoop();
    const isDue = this.options.every !== undefined && this.isAtStep(this.options.every);
    await this.saveIfDue(this.positionInLoop, isDue ? [this.folder] : []);
  }

  /**
   * From now on this rank saves when it is told to stop.
   *
   * @internal
   */
  beginLoop(): void {
    const { saveOnStop = true } = this.options;
    if (saveOnStop) this.communicator.stopRequest.listen();
  }

  /**
   * It does not any more.
   *
   * @param hasFailed Whether the training has raised an error.
   * @internal
   */
  endLoop(hasFailed: boolean): void {
    this.communicator.stopRequest.stopListening(!hasFailed);
  }

  /**
   * By which metric the best epoch is kept.
   *
   * @internal
   */
  get bestMetric(): BestMetric | undefined {
    return bestMetricOf(this.options);
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
    const { every } = this.options;
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

  private get positionInLoop(): FitPosition {
    return { epoch: this.trained().optimizer.currentEpoch ?? 0, batch: 0 };
  }

  private isAtStep(every: number): boolean {
    return this.trained().optimizer.nextStep % every === 0;
  }

  private async saveIfDue(position: FitPosition, folders: readonly SaveFolder[]): Promise<void> {
    await this.communicator.stopRequest.letSignalsArrive();
    const notices = this.trained().optimizer.notices.take() ?? 0;
    if ((notices & Notice.Stop) !== 0) return this.saveAndEnd(position, folders);
    const isWritten = (notices & Notice.Written) !== 0 && (notices & Notice.Writing) === 0;
    const isDue = folders.length > 0;
    if (isDue || isWritten) await this.trySave(() => this.finish());
    if (this.options.background !== true) return this.saveTo(folders, position);
    if (isDue) await this.trySave(() => this.writer.begin(position, folders));
  }

  private async saveTo(folders: readonly SaveFolder[], position: FitPosition): Promise<void> {
    for (const folder of folders) await this.trySave(() => this.writer.save(position, folder));
  }

  private async trySave(save: () => Promise<unknown>, onFailure = this.options.onFailure ?? 'stop'): Promise<void> {
    try {
      await save();
    } catch (error) {
      if (onFailure === 'stop' || !(error instanceof GradringError) || error.code !== 'ERR_CHECKPOINT') throw error;
      process.emitWarning(error.message, { code: error.code });
    }
  }

  /** All ranks do this after the same step. Does not return. */
  private async saveAndEnd(position: FitPosition, folders: readonly SaveFolder[]): Promise<void> {
    const { communicator } = this;
    await this.trySave(() => this.finish(), 'continue');
    for (const folder of folders) {
      if (folder.dir !== this.options.dir) await this.trySave(() => this.writer.save(position, folder), 'continue');
    }
    const path = await this.writer.save(position, this.folder).catch((error: unknown) => {
      this.endLoop(true); // or SIGTERM would end the process before the error is told
      throw error;
    });
    const { reason = 'another rank was told to stop' } = this.communicator.stopRequest;
    if (communicator.rank === 0) {
      const { nextStep } = this.trained().optimizer;
      process.stderr.write(
        `gradring: ${reason}. All ranks have saved at step ${nextStep} (${path}), and end with exit code ${STOPPED_EXIT_CODE}. The same command goes on from there.\n`,
      );
    }
    this.communicator.stopRequest.markSaved();
    await communicator.close();
    process.exit(STOPPED_EXIT_CODE);
  }

  private get folder(): SaveFolder {
    const { dir, keep = 2 } = this.options;
    return { dir, keep, discarded: this.discarded };
  }

  private get bestFolder(): SaveFolder {
    return { dir: join(this.options.dir, 'best'), keep: 1 };
  }

  private async resumeFrom(dir: string): Promise<ResumedPosition> {
    const { onDamage = 'error' } = this.options;
    const ranks = this.writer.ranks(Purpose.ResumeCheckpoint);
    await this.lock.hold(ranks, true);
    const loaded = await loadCheckpoint(ranks, {
      dir,
      onDamage,
      ranksToRead: ({ worldSize }) => ranksToRead(this.resizing(worldSize)),
      check: found => void fitted(found, this.source),
    });
    if (loaded === undefined) return { step: 0, epoch: 0, batch: 0, state: undefined, path: undefined, skipped: [] };
    const { path, skipped, manifest } = loaded;
    const { position, state } = await this.restore(loaded);
    if (dir === this.options.dir) this.discarded = skipped.map(({ name }) => name);
    this.resumedAt = position;
    const { epoch, batch } = position;
    const reasons = skipped.map(({ reason }) => reason);
    const isOwn = this.communicator.rank < manifest.worldSize;
    return { step: manifest.step, epoch, batch, state: isOwn ? state : undefined, path, skipped: reasons };
  }

  private async restore(loaded: LoadedCheckpoint): Promise<SavedRank> {
    const { manifest } = loaded;
    const { weights, own } = fitted(loaded, this.source);
    const { variables, optimizer } = this.trained();
    for (const variable of weights === undefined ? [] : variables) {
      restoreVariable(variable, weights!.tensors.get(variable.name)!);
    }
    await broadcastVariables(this.communicator, variables, { root: 0, purpose: Purpose.ResumeCheckpoint });
    const [first] = own;
    if (manifest.worldSize === this.communicator.worldSize) {
      const differing = tensorsUnder(first!.tensors, 'weight');
      for (const variable of variables) {
        const saved = differing.get(variable.name);
        if (saved !== undefined) restoreVariable(variable, saved);
      }
    }
    const savedRank = savedRankOf(first!);
    const resizing = this.resizing(manifest.worldSize);
    await optimizer.restoreState({
      counters: resizedCounters(savedRank.optimizer, resizing),
      variables: variableStates(own, resizing),
      sums: waitingSums(own, resizing),
      ...tensorStatesOf(first!.tensors),
    });
    return savedRank;
  }

  private resizing(savedWorldSize: number): Resizing {
    const { rank, worldSize } = this.communicator;
    const { residuals = this.communicator.isElastic ? 'redistribute' : undefined } = this.options;
    return { savedWorldSize, rank, worldSize, policy: residuals, keepsSum: this.trained().optimizer.keepsSum };
  }

  private trained(): Training {
    return trainedOf(this.source, 'ring.checkpoint');
  }
}

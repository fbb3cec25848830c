import { checkOptions } from '../check-options';
import { awake, waitForPromise } from '../work';
import { join, resolve } from 'node:path';
import type { tf } from './tfjs';
import type { TensorSource } from '../checkpoint/checkpoint-file';
import type { Ranks } from '../checkpoint/ranks';
import { type LoadedCheckpoint, loadCheckpoint } from '../checkpoint/load-checkpoint';
import { FolderLock } from '../checkpoint/folder-lock';
import { saveCheckpoint } from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import {
  deserializeError,
  GradringError,
  invalidArgument,
  isSerializedError,
  type SerializedError,
  serializeError,
} from '../errors';
import { STOPPED_EXIT_CODE } from '../communicator/stop-request';
import { isText, isWith } from '../shape';
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
import { sourcesOf, tensorStatesOf } from './optimizer-state';
import { areTexts, broadcastVariables, gatherValues, hashesOf, type Variables } from './replicas';
import { ranksToRead, resizedCounters, type Resizing, variableStates, waitingSums } from './resized-state';
import type { TrainedOptimizer } from './trained-optimizer';
import { type Trained, trainedOf, type Training } from './trained';
import { restoreVariable, sourceOf, tensorsUnder } from './saved-tensor';
import { fitted, savedVariables } from './saved-variables';
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
    communicator.atClose.push(() => lock.release());
    this.lock = lock;
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
    const { optimizer } = this.trained();
    return this.saveAt({ epoch: optimizer.currentEpoch ?? 0, batch: 0 });
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
    return live.inTurn(() => this.resumeFrom(options.best === true ? this.bestFolder : this.options.dir));
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
    const { optimizer } = this.trained();
    const isDue = this.options.every !== undefined && this.isAtStep(this.options.every);
    await this.saveIfDue({ epoch: optimizer.currentEpoch ?? 0, batch: 0 }, isDue);
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
    if (isBest) await this.trySave(() => this.saveAt(position, this.bestFolder, 1));
    await this.saveIfDue(position, every === undefined ? position.batch === 0 : this.isAtStep(every));
  }

  private isAtStep(every: number): boolean {
    return this.trained().optimizer.nextStep % every === 0;
  }

  private async saveIfDue(position: FitPosition, isDue: boolean): Promise<void> {
    await this.communicator.stopRequest.letSignalsArrive();
    const notices = this.trained().optimizer.notices.take() ?? 0;
    if ((notices & Notice.Stop) !== 0) return this.saveAndEnd(position);
    if (isDue) await this.trySave(() => this.saveAt(position));
  }

  private async trySave(save: () => Promise<unknown>): Promise<void> {
    const { onFailure = 'stop' } = this.options;
    try {
      await save();
    } catch (error) {
      if (onFailure === 'stop' || !(error instanceof GradringError) || error.code !== 'ERR_CHECKPOINT') throw error;
      process.emitWarning(error.message, { code: error.code });
    }
  }

  /** All ranks do this after the same step. Does not return. */
  private async saveAndEnd(position: FitPosition): Promise<void> {
    const { communicator } = this;
    const path = await this.saveAt(position).catch((error: unknown) => {
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

  private get bestFolder(): string {
    return join(this.options.dir, 'best');
  }

  private async resumeFrom(dir: string): Promise<ResumedPosition> {
    const { onDamage = 'error' } = this.options;
    const ranks = this.ranks(Purpose.ResumeCheckpoint);
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

  /** @param keep How many checkpoints to keep there. */
  private async saveAt(position: FitPosition, dir = this.options.dir, keep = this.options.keep ?? 2): Promise<string> {
    const { variables, optimizer } = this.trained();
    const save = () =>
      optimizer.withState(async state => {
        const savedRank = (): SavedRank => ({
          ...{ position, optimizer: state.counters, variables: savedVariables(this.source, variables) },
          state: this.options.state?.(),
        });
        const sources = variables.map(variable => sourceOf(variable.name, variable));
        const own = [...sourcesOf(state), ...(await this.ownWeights(variables, optimizer))];
        const step = state.counters.steps;
        const discarded = dir === this.options.dir ? this.discarded : [];
        const ranks = this.ranks(Purpose.SaveCheckpoint);
        await this.lock.hold(ranks, false);
        return saveCheckpoint(ranks, {
          dir,
          keep,
          step,
          weights: sources,
          own,
          state: savedRank,
          discarded,
        });
      });
    const { units } = this.communicator;
    const run = () =>
      units.run({ name: 'checkpoint', isResult: isOutcome, run: () => waitForPromise(outcomeOf(save)) });
    const outcome = await LiveTraining.of(this.communicator).inTurn(run);
    if ('error' in outcome) throw deserializeError(outcome.error);
    if (dir === this.options.dir) this.discarded = [];
    return outcome.path;
  }

  /**
   * The variables in which this rank differs from rank 0: those that no gradient trains (batch norm's moving statistics
   * within an epoch), and within a round of local steps the others, too.
   */
  private async ownWeights(variables: Variables, optimizer: TrainedOptimizer): Promise<TensorSource[]> {
    const trained = optimizer.trainedNames;
    const missing = [...(trained ?? [])].find(name => !variables.some(variable => variable.name === name));
    if (missing !== undefined) {
      throw invalidArgument(`The optimizer trains '${missing}', which is not among the variables of the checkpoint.`);
    }
    const others = variables.filter(({ name }) => optimizer.replicasMayDiffer || !trained?.has(name));
    const hashes = hashesOf(others);
    const [ofRoot] = await awake(gatherValues(this.communicator, Purpose.SaveCheckpoint, areTexts, hashes));
    return others
      .filter((_, i) => hashes[i] !== ofRoot![i])
      .map(variable => sourceOf(`weight/${variable.name}`, variable));
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

  /** What saving and loading need of the ring. */
  private ranks(purpose: Purpose): Ranks {
    const { communicator } = this;
    const { rank, worldSize } = communicator;
    const allGather = (bytes: Uint8Array) => communicator.allGather(bytes, { variableLength: true, purpose });
    return { rank, worldSize, allGather };
  }

  private trained(): Training {
    return trainedOf(this.source, 'ring.checkpoint');
  }
}

type SaveOutcome = { readonly path: string } | { readonly error: SerializedError };

const hasPath = isWith({ path: isText });
const hasError = isWith({ error: isSerializedError });
const isOutcome = (value: unknown): value is SaveOutcome => hasPath(value) || hasError(value);

/** A save that failed is over on all ranks, like one that succeeded. */
async function outcomeOf(save: () => Promise<string>): Promise<SaveOutcome> {
  try {
    return { path: await save() };
  } catch (error) {
    if (!(error instanceof GradringError) || !error.code.startsWith('ERR_CHECKPOINT')) throw error;
    return { error: serializeError(error, 'ERR_CHECKPOINT') };
  }
}

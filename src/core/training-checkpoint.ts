import { resolve } from 'node:path';
import type { ReadTensor, TensorFile, TensorSource } from '../checkpoint/checkpoint-file';
import { FolderLock } from '../checkpoint/folder-lock';
import { type LoadedCheckpoint, loadCheckpoint } from '../checkpoint/load-checkpoint';
import type { Ranks } from '../checkpoint/ranks';
import type { SaveFolder } from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import { STOPPED_EXIT_CODE } from '../communicator/stop-request';
import { GradringError, invalidArgument } from '../errors';
import type { Check } from '../shape';
import { awake } from '../work';
import type { Steps } from './capture-state';
import type { CoreCheckpointOptions, ResumedPosition } from './core-checkpoint-options';
import { CheckpointWriter, ranksOf, type SaveContentTo, Turns } from './checkpoint-writer';
import { type CheckpointFit, fitted } from './match-checkpoint';
import type { StepState } from './step-state';
import { areTexts, gatherValues } from './replicas';
import { ranksToRead, resizedCounters, restoredStates, type Resizing } from './resized-state';
import { type Position, type SavedRank, savedRankOf, type SavedVariable } from './saved-rank';
import { tensorsUnder } from './saved-tensor';
import { Notice } from './ring-agreement';

/** A variable of a training that a checkpoint holds. */
export interface CheckpointedVariable extends SavedVariable {
  /** Its values, as a tensor of that name. They must not change until they are written. */
  source(name: string): TensorSource;
  /** The hash of its values. */
  hash(): string;
  /** Gives it the values that were read. They have its shape and type. */
  assign(read: ReadTensor): void;
}

/**
 * What takes the steps of a training.
 *
 * @template S All that it needs to continue.
 */
export interface CheckpointedSteps<S extends StepState> extends Readonly<
  Pick<Steps, 'step' | 'epoch' | 'trainedNames' | 'replicasMayDiffer' | 'keepsSum' | 'notices' | 'whileBusy'>
> {
  /** Passes what a checkpoint keeps of this rank to `use`, as views: no step may be taken until its promise settles. */
  withState<T>(use: (state: S) => Promise<T>): Promise<T>;
  /** @throws GradringError `ERR_CHECKPOINT` if these steps cannot go on from a state: they have other options. */
  requireFits(state: StepState): void;
  /** Takes back what {@link withState} gave, on this or another rank. The arrays become those of the steps. */
  restoreState(state: S): Promise<void>;
}

/** What a checkpoint must fit, beside the variables. */
export interface TrainingFit<P extends Position> extends Omit<CheckpointFit, 'variables'> {
  readonly isPosition: Check<P>;
}

/**
 * A training, as a checkpoint uses it.
 *
 * @template S All that its steps need to continue.
 * @template P Where in a training a checkpoint is taken.
 */
export interface CheckpointSource<S extends StepState, P extends Position> {
  /** What takes the steps. */
  readonly steps: CheckpointedSteps<S>;
  /** All variables of the training, in an order that is always the same. */
  variables(): readonly CheckpointedVariable[];
  /** What a checkpoint must fit, beside the variables. */
  fit(): TrainingFit<P>;
  /** The tensors of a rank's file. */
  sourcesOf(state: S): TensorSource[];
  /** The state of this rank from the files of {@link ranksToRead}, the first of which has what all ranks share. */
  stateOf(state: StepState, files: readonly TensorFile[], resizing: Resizing): S;
  /** Gives all ranks the variables of rank 0. */
  broadcastVariables(): Promise<void>;
  /** Where there is nothing to resume: compares the variables of all ranks, and gives them those of rank 0. */
  beginAlike?(): Promise<void>;
}

/** Saves a training and resumes it bit for bit, whatever array library it has. */
export class TrainingCheckpoint<S extends StepState, P extends Position> {
  /** Damaged checkpoints that were skipped. The next save removes them. */
  private discarded: readonly string[] = [];
  /** The folder, as an absolute path: the program may change its working folder. */
  private readonly dir: string;
  private readonly lock: FolderLock;
  private readonly writer: CheckpointWriter<P>;

  constructor(
    private readonly communicator: Communicator,
    private readonly source: CheckpointSource<S, P>,
    private readonly options: CoreCheckpointOptions,
  ) {
    this.dir = resolve(options.dir);
    const lock = new FolderLock(this.dir, communicator.runId);
    communicator.atClose.push(() => this.writer.close());
    this.lock = lock;
    this.writer = new CheckpointWriter(
      communicator,
      lock,
      (position, save) => this.withContent(position, save),
      () => this.source.steps.notices,
    );
  }

  /** Saves now, and returns the folder of the new checkpoint. */
  async save(): Promise<string> {
    if (this.options.background === true) await this.finish(); // without it a step right after this must be refused
    return this.writer.save(this.position(), this.folder);
  }

  /** Completes what the option `background` still writes. Returns the folders. */
  async finish(): Promise<string[]> {
    return this.options.background === true ? this.source.steps.whileBusy(() => this.writer.finish()) : [];
  }

  /** {@link finish}. If that fails, `onFailure` says what follows. */
  async tryFinish(onFailure?: CoreCheckpointOptions['onFailure']): Promise<void> {
    await this.trySave(() => this.finish(), onFailure);
  }

  /** Does what is due after a step of a loop: saves, or, if a rank was told to stop, saves and ends the process. */
  async afterStep(): Promise<void> {
    this.beginLoop();
    const { every } = this.options;
    await this.saveIfDue(this.position(), every !== undefined && this.isAtStep(every) ? [this.folder] : []);
  }

  /** From now on this rank saves when it is told to stop. */
  beginLoop(): void {
    const { saveOnStop = true } = this.options;
    if (saveOnStop) this.communicator.stopRequest.listen();
  }

  /**
   * It does not any more.
   *
   * @param hasFailed Whether the training has raised an error.
   */
  endLoop(hasFailed: boolean): void {
    this.communicator.stopRequest.stopListening(!hasFailed);
  }

  private position(): P {
    return { epoch: this.source.steps.epoch ?? 0, batch: 0 } as P; // of a loop that counts no batches
  }

  /** Whether the training is at such a step: after every so many. */
  isAtStep(every: number): boolean {
    return this.source.steps.step % every === 0;
  }

  /** Saves to these folders what is due. If a rank was told to stop, all save, and end. */
  async saveIfDue(position: P, folders: readonly SaveFolder[]): Promise<void> {
    await this.communicator.stopRequest.letSignalsArrive();
    const notices = this.source.steps.notices.take() ?? 0;
    if ((notices & Notice.Stop) !== 0) return this.saveAndEnd(position, folders);
    const isWritten = (notices & Notice.Written) !== 0 && (notices & Notice.Writing) === 0;
    const isDue = folders.length > 0;
    if (isDue || isWritten) await this.tryFinish();
    if (this.options.background !== true) return this.saveTo(folders, position);
    if (isDue) await this.trySave(() => this.writer.begin(position, folders));
  }

  private async saveTo(folders: readonly SaveFolder[], position: P): Promise<void> {
    for (const folder of folders) await this.trySave(() => this.writer.save(position, folder));
  }

  /** Saves. If that fails, `onFailure` says what follows. */
  private async trySave(save: () => Promise<unknown>, onFailure = this.options.onFailure ?? 'stop'): Promise<void> {
    try {
      await save();
    } catch (error) {
      if (onFailure === 'stop' || !(error instanceof GradringError) || error.code !== 'ERR_CHECKPOINT') throw error;
      process.emitWarning(error.message, { code: error.code });
    }
  }

  /** All ranks do this after the same step. Does not return. */
  private async saveAndEnd(position: P, folders: readonly SaveFolder[]): Promise<void> {
    const { communicator } = this;
    await this.tryFinish('continue');
    for (const folder of folders) {
      if (folder.dir !== this.dir) await this.trySave(() => this.writer.save(position, folder), 'continue');
    }
    const path = await this.writer.save(position, this.folder).catch((error: unknown) => {
      this.endLoop(true); // or SIGTERM would end the process before the error is told
      throw error;
    });
    const { reason = 'another rank was told to stop' } = this.communicator.stopRequest;
    if (communicator.rank === 0) {
      const { step } = this.source.steps;
      process.stderr.write(
        `gradring: ${reason}. All ranks have saved at step ${step} (${path}), and end with exit code ${STOPPED_EXIT_CODE}. The same command goes on from there.\n`,
      );
    }
    this.communicator.stopRequest.markSaved();
    await communicator.close();
    process.exit(STOPPED_EXIT_CODE);
  }

  /** Where the newest checkpoints are. */
  get folder(): SaveFolder {
    return { dir: this.dir, keep: this.options.keep ?? 2, discarded: this.discarded };
  }

  /** Goes back to the newest checkpoint in a folder. Returns its position, or nothing if there is none. */
  async resumeFrom(dir: string): Promise<Resumed<P>> {
    await this.tryFinish('continue');
    return Turns.of(this.communicator).inTurn(() => this.load(dir));
  }

  private async load(dir: string): Promise<Resumed<P>> {
    const { onDamage = 'error' } = this.options;
    const ranks = this.ranks(Purpose.ResumeCheckpoint);
    await this.lock.hold(ranks, true);
    const fit = (): CheckpointFit => ({ ...this.source.fit(), variables: this.source.variables() });
    const loaded = await loadCheckpoint(ranks, {
      dir,
      onDamage,
      ranksToRead: ({ worldSize }) => ranksToRead(this.resizing(worldSize)),
      check: found => void fitted(found, fit()),
    });
    if (loaded === undefined) {
      if (dir === this.dir) await this.source.beginAlike?.();
      return { resumed: { step: 0, epoch: 0, batch: 0, state: undefined, path: undefined, skipped: [] } };
    }
    const { path, skipped, manifest } = loaded;
    const { position, state } = await this.restore({ ...loaded, ...fitted(loaded, fit()) });
    if (dir === this.dir) this.discarded = skipped.map(({ name }) => name);
    const { epoch, batch } = position;
    const reasons = skipped.map(({ reason }) => reason);
    const isOwn = this.communicator.rank < manifest.worldSize;
    const own = isOwn ? state : undefined;
    return { resumed: { step: manifest.step, epoch, batch, state: own, path, skipped: reasons }, position };
  }

  /** Passes on what this rank saves. It must not change until the promise settles. */
  private withContent<T>(position: P, save: SaveContentTo<T>): Promise<T> {
    return this.source.steps.withState(async state => {
      const variables = this.source.variables();
      const savedRank = (): SavedRank<P> => ({
        ...{ position, optimizer: state.counters, variables: variables.map(withoutValues) },
        state: this.options.state?.(),
      });
      const weights = variables.map(variable => variable.source(variable.name));
      const own = [...this.source.sourcesOf(state), ...(await this.ownWeights(variables))];
      const ranks = this.ranks(Purpose.SaveCheckpoint);
      await this.lock.hold(ranks, false);
      return save(ranks, state.counters.steps, { weights, own, state: savedRank });
    });
  }

  /**
   * The variables in which this rank differs from rank 0: those that no gradient trains (batch norm's moving statistics
   * within an epoch), and within a round of local steps the others, too.
   */
  private async ownWeights(variables: readonly CheckpointedVariable[]): Promise<TensorSource[]> {
    const { trainedNames: trained, replicasMayDiffer } = this.source.steps;
    const missing = [...(trained ?? [])].find(name => !variables.some(variable => variable.name === name));
    if (missing !== undefined) {
      throw invalidArgument(`The optimizer trains '${missing}', which is not among the variables of the checkpoint.`);
    }
    const others = variables.filter(({ name }) => replicasMayDiffer || !trained?.has(name));
    const hashes = others.map(variable => variable.hash());
    const [ofRoot] = await awake(gatherValues(this.communicator, Purpose.SaveCheckpoint, areTexts, hashes));
    return others
      .filter((_, i) => hashes[i] !== ofRoot![i])
      .map(variable => variable.source(`weight/${variable.name}`));
  }

  private async restore({ manifest, weights, own }: LoadedCheckpoint): Promise<SavedRank<P>> {
    const variables = this.source.variables();
    const [first] = own;
    const savedRank = savedRankOf(first!, this.source.fit().isPosition);
    const resizing = this.resizing(manifest.worldSize);
    const counters = resizedCounters(savedRank.optimizer, resizing);
    const state = { counters, variables: restoredStates(own, resizing) };
    this.source.steps.requireFits(state); // before any weight is replaced
    for (const variable of weights === undefined ? [] : variables) {
      variable.assign(weights!.tensors.get(variable.name)!);
    }
    await this.source.broadcastVariables();
    if (manifest.worldSize === this.communicator.worldSize) {
      const differing = tensorsUnder(first!.tensors, 'weight');
      for (const variable of variables) {
        const saved = differing.get(variable.name);
        if (saved !== undefined) variable.assign(saved);
      }
    }
    await this.source.steps.restoreState(this.source.stateOf(state, own, resizing));
    return savedRank;
  }

  private resizing(savedWorldSize: number): Resizing {
    const { rank, worldSize } = this.communicator;
    const { residuals = this.communicator.isElastic ? 'redistribute' : undefined } = this.options;
    return { savedWorldSize, rank, worldSize, policy: residuals, keepsSum: this.source.steps.keepsSum };
  }

  private ranks(purpose: Purpose): Ranks {
    return ranksOf(this.communicator, purpose);
  }
}

interface Resumed<P> {
  readonly resumed: ResumedPosition;
  readonly position?: P;
}

function withoutValues({ name, given, dtype, shape }: SavedVariable): SavedVariable {
  return { name, given, dtype, shape };
}

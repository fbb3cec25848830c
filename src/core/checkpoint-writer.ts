import type { FolderLock } from '../checkpoint/folder-lock';
import type { Ranks } from '../checkpoint/ranks';
import {
  type Completion,
  completeSaves,
  copyOf,
  isCheckpointError,
  isSavePlace,
  pathOf,
  type PendingSave,
  placeSave,
  saveCheckpoint,
  type SaveContent,
  type SaveFolder,
  type SavePlace,
  writeSave,
} from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import { deserializeError, isSerializedError, type SerializedError, serializeError } from '../errors';
import { type Check, isBoolean, isCount, isListOf, isOptional, isOrNull, isText, isWith } from '../shape';
import { waitForPromise } from '../work';
import { Notice, type StepNotices } from './ring-agreement';

/** Saves what a rank has at a step. */
export type SaveContentTo<T> = (ranks: Ranks, step: number, content: SaveContent) => Promise<T>;

/**
 * Writes the checkpoints of a training: while that waits, or in the background.
 *
 * @template P Where in a training a checkpoint is taken.
 */
export class CheckpointWriter<P> {
  /** What is being written in the background. */
  private pending: readonly PendingSave[] = [];

  constructor(
    private readonly communicator: Communicator,
    private readonly lock: FolderLock,
    private readonly withContent: <T>(position: P, save: SaveContentTo<T>) => Promise<T>,
    private readonly notices: () => StepNotices,
  ) {}

  /** Saves, and returns the folder of the checkpoint when it is complete. */
  async save(position: P, folder: SaveFolder): Promise<string> {
    const save = (ranks: Ranks, step: number, content: SaveContent) =>
      saveCheckpoint(ranks, { ...folder, ...content, step });
    const { paths } = await this.together(hasPaths, async () => ({ paths: [await this.withContent(position, save)] }));
    return paths[0]!;
  }

  /**
   * Copies what is saved, and writes it while the training goes on, up to {@link finish}.
   *
   * @throws as {@link save}, for a folder that cannot be written. What is saved in the others is written.
   */
  async begin(position: P, folders: readonly SaveFolder[]): Promise<void> {
    let copied: { readonly rank: number; readonly content: SaveContent } | undefined;
    const begin = async (ranks: Ranks, step: number, content: SaveContent) => {
      const copy = async () => void (copied ??= { rank: ranks.rank, content: await copyOf(content, ranks.rank) });
      const begun: Begun = { places: [] };
      copied = undefined; // of another ring
      for (const folder of folders) {
        try {
          begun.places.push(await placeSave(ranks, folder, step, copy));
        } catch (error) {
          if (!isCheckpointError(error)) throw error;
          begun.places.push(null);
          begun.failure ??= serializeError(error, 'ERR_CHECKPOINT');
        }
      }
      return begun;
    };
    const { places, failure } = await this.together(isBegun, () => this.withContent(position, begin));
    let last: Promise<unknown> = Promise.resolve();
    const pending = folders.flatMap((folder, i): PendingSave[] => {
      const place = places[i];
      if (place == null) return [];
      // A rank that was behind the others has their result, but has copied, too: they agree after that.
      const { rank, content } = copied!;
      const written = last.then(() => writeSave(folder, place, rank, content));
      last = written.catch(() => undefined); // told by finish
      return [{ folder, place, rank, written }];
    });
    const notices = this.notices();
    this.pending = pending;
    notices.own = Notice.Writing;
    notices.forget(Notice.Written); // with exchanges that began before
    void last.then(() => {
      if (this.pending === pending) notices.own = Notice.Written;
    });
    if (failure !== undefined) throw deserializeError(failure);
  }

  /**
   * Completes what is being written in the background, on all ranks. They decide together whether there is something:
   * in an elastic run a rank may have joined since it began.
   *
   * @returns The folders of this rank's checkpoints that are complete now.
   */
  async finish(): Promise<string[]> {
    const { communicator, pending } = this;
    const complete = async () => {
      const ranks = ranksOf(communicator, Purpose.SaveCheckpoint);
      return { completions: await completeSaves(ranks, pending, () => this.lock.hold(ranks, false)) };
    };
    const { completions } = await this.together(areCompletions, complete).catch((error: unknown) => {
      if (isCheckpointError(error)) this.forget(); // otherwise the ring has failed
      throw error;
    });
    this.forget();
    const lost = completions.find(({ isComplete }) => !isComplete);
    if (lost?.root === communicator.rank) {
      const words = `A rank was lost before the checkpoint of step ${pending[0]!.place.step} was complete. The one before stays.`;
      process.emitWarning(words, 'GradringWarning');
    }
    return pending.filter((_, i) => completions[i]?.isComplete).map(({ folder, place }) => pathOf(folder, place));
  }

  private forget(): void {
    this.pending = [];
    this.notices().own = 0;
  }

  /** Gives the folder back when the files of this rank are written. Warns if the ranks have not completed them. */
  async close(): Promise<void> {
    const { pending } = this;
    await Promise.allSettled(pending.map(({ written }) => written));
    this.lock.release();
    const [save] = pending;
    if (save === undefined) return;
    const words = `The checkpoint of step ${save.place.step} in ${save.folder.dir} was written, but the ranks have not completed it. (checkpoint.finish() does that, on all ranks before ring.close().)`;
    process.emitWarning(words, 'GradringWarning');
  }

  /** Runs a part of a save, which all ranks do or none, after the earlier calls. */
  private async together<T>(isResult: Check<T>, run: () => Promise<T>): Promise<T> {
    const { units } = this.communicator;
    const isOutcome = (value: unknown): value is Outcome<T> => isResult(value) || hasError(value);
    const unit = { name: 'checkpoint', isResult: isOutcome, run: () => waitForPromise(outcomeOf(run)) };
    const outcome = await Turns.of(this.communicator).inTurn(() => units.run<Outcome<T>>(unit));
    if (hasError(outcome)) throw deserializeError(outcome.error);
    return outcome as T;
  }
}

/** The calls of a communicator that have several collectives. They run one after the other. */
export class Turns {
  private static readonly all = new WeakMap<Communicator, Turns>();
  /** Settles, without an error, when the call is over that {@link inTurn} runs. */
  private running: Promise<unknown> | undefined;

  static of(communicator: Communicator): Turns {
    const known = this.all.get(communicator) ?? new Turns();
    this.all.set(communicator, known);
    return known;
  }

  /**
   * Runs what has several collectives when the earlier calls are over: between them ranks wait for their disks, so that
   * the collectives of two would come in different orders.
   */
  async inTurn<T>(run: () => Promise<T>): Promise<T> {
    while (this.running !== undefined) await this.running;
    const result = run();
    const end = () => (this.running = undefined);
    this.running = result.then(end, end);
    return result;
  }
}

/** What saving and loading need of the ring. */
export function ranksOf(communicator: Communicator, purpose: Purpose): Ranks {
  const { rank, worldSize } = communicator;
  const allGather = (bytes: Uint8Array) => communicator.allGather(bytes, { variableLength: true, purpose });
  return { rank, worldSize, allGather };
}

type Outcome<T> = T | { readonly error: SerializedError };

/** Where saves have begun, by folder. Null for one that cannot be written. */
interface Begun {
  readonly places: (SavePlace | null)[];
  failure?: SerializedError;
}

const hasPaths = isWith({ paths: isListOf(isText) });
const isBegun = isWith<Begun>({
  places: isListOf(isOrNull(isSavePlace)),
  failure: isOptional(isSerializedError) as Check<SerializedError>,
});
const areCompletions = isWith({
  completions: isListOf(isWith<Completion>({ isComplete: isBoolean, root: isCount })),
});
const hasError = isWith({ error: isSerializedError });

/** A save that failed is over on all ranks, like one that succeeded. */
async function outcomeOf<T>(save: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return await save();
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    return { error: serializeError(error, 'ERR_CHECKPOINT') };
  }
}

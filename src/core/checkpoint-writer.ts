import type { Ranks } from '../checkpoint/ranks';
import {
  completeSaves,
  copyOf,
  isSavePlace,
  type PendingSave,
  placeSave,
  saveCheckpoint,
  type SaveContent,
  type SaveFolder,
  type SavePlace,
  writeSave,
} from '../checkpoint/save-checkpoint';
import { type Communicator, Purpose } from '../communicator/communicator';
import { deserializeError, GradringError, isSerializedError, type SerializedError, serializeError } from '../errors';
import { type Check, isListOf, isText, isWith } from '../shape';
import { waitForPromise } from '../work';
import { Notice, type StepNotices } from './step-notices';
import { Turns } from './turns';
import { warn } from './warn';

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

  /** Copies what is saved, and writes it while the training goes on, up to {@link finish}. */
  async begin(position: P, folders: readonly SaveFolder[]): Promise<void> {
    let copied: { readonly rank: number; readonly content: SaveContent } | undefined;
    const place = async (ranks: Ranks, step: number, content: SaveContent) => {
      const copy = async () => void (copied = { rank: ranks.rank, content: await copyOf(content, ranks.rank) });
      const places: SavePlace[] = [];
      for (const folder of folders) {
        places.push(await placeSave(ranks, folder, step, places.length === 0 ? copy : undefined));
      }
      return { places };
    };
    const { places } = await this.together(hasPlaces, () => this.withContent(position, place));
    // A rank that was behind the others has their result, but has copied, too: they agree after that.
    const { rank, content } = copied!;
    let last: Promise<unknown> = Promise.resolve();
    const pending = folders.map((folder, i): PendingSave => {
      const written = last.then(() => writeSave(folder, places[i]!, rank, content));
      last = written.catch(() => undefined); // told by finish
      return { folder, place: places[i]!, rank, written };
    });
    const notices = this.notices();
    this.pending = pending;
    notices.own = Notice.Writing;
    notices.forget(Notice.Written); // with exchanges that began before
    void last.then(() => {
      if (this.pending === pending) notices.own = Notice.Written;
    });
  }

  /**
   * Completes what is being written in the background, on all ranks. They decide together whether there is something:
   * in an elastic run a rank may have joined since it began.
   *
   * @returns The folders of this rank's checkpoints that are complete now.
   */
  async finish(): Promise<string[]> {
    const { pending } = this;
    const complete = async () => ({
      paths: await completeSaves(ranksOf(this.communicator, Purpose.SaveCheckpoint), pending),
    });
    try {
      const { paths } = await this.together(hasPaths, complete);
      if (paths.length < pending.length) {
        const words = `A rank was lost while the checkpoint of step ${pending[0]!.place.step} was written, so it is not complete. The one before stays.`;
        warn(this.communicator, words);
      }
      return paths;
    } finally {
      this.pending = [];
      this.notices().own = 0;
    }
  }

  /** Warns of what is still being written when the ring is closed. */
  close(): void {
    const [save] = this.pending;
    if (save === undefined) return;
    const words = `The checkpoint of step ${save.place.step} in ${save.folder.dir} was not completed. Call checkpoint.finish() on all ranks before ring.close().`;
    process.emitWarning(words, { code: 'ERR_CHECKPOINT' });
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

/** What saving and loading need of the ring. */
export function ranksOf(communicator: Communicator, purpose: Purpose): Ranks {
  const { rank, worldSize } = communicator;
  const allGather = (bytes: Uint8Array) => communicator.allGather(bytes, { variableLength: true, purpose });
  return { rank, worldSize, allGather };
}

type Outcome<T> = T | { readonly error: SerializedError };

const hasPaths = isWith({ paths: isListOf(isText) });
const hasPlaces = isWith({ places: isListOf(isSavePlace) });
const hasError = isWith({ error: isSerializedError });

/** A save that failed is over on all ranks, like one that succeeded. */
async function outcomeOf<T>(save: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return await save();
  } catch (error) {
    if (!(error instanceof GradringError) || !error.code.startsWith('ERR_CHECKPOINT')) throw error;
    return { error: serializeError(error, 'ERR_CHECKPOINT') };
  }
}

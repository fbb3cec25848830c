import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { GradringError } from '../errors';
import { folderModeIn, PRIVATE_FOLDER } from '../file-mode';
import { requirePlain } from '../plain-json';
import { folderName, hasManifest, LARGEST_NUMBER, listSaves, removeSave } from './checkpoint-folder';
import { type TensorSource, writeTensorFile } from './checkpoint-file';
import { type FileSum, isFileSum, makeFolder, writeDurably } from './durable-file';
import { encodeManifest, MANIFEST_FILE, rankFile, WEIGHTS_FILE } from './manifest';
import { brokenValue } from '../rank-values';
import { encodeHeader, inFileOrder } from './safetensors';
import { isBetween, isCount, isListOf, isOptional, isText, isWith } from '../shape';
import { isNothing, type Ranks, together } from './ranks';

/** Where to save. */
export interface SaveFolder {
  /** On a file system that the ranks share, or on each host's own. */
  readonly dir: string;
  /** How many complete checkpoints stay, this one included. */
  readonly keep: number;
  /** Names of saves that do not count as complete, and are removed. */
  readonly discarded?: readonly string[];
}

/** What to save. */
export interface SaveContent {
  /** What all ranks have in common. Rank 0 writes it. */
  readonly weights: readonly TensorSource[];
  /** What belongs to this rank alone. */
  readonly own: readonly TensorSource[];
  /** Returns what else this rank saves: small, plain JSON. If it throws, the save fails on all ranks. */
  readonly state: () => unknown;
}

/** A whole save: where, of which step, and what. */
export interface SaveInput extends SaveFolder, SaveContent {
  /** The same on all ranks. */
  readonly step: number;
}

/** The folder of a save, on which the ranks have agreed. */
export interface SavePlace {
  readonly number: number;
  readonly step: number;
  /** Of the ring that saves. */
  readonly worldSize: number;
}

export const isSavePlace = isWith<SavePlace>({
  number: isBetween(1, LARGEST_NUMBER),
  step: isBetween(0, LARGEST_NUMBER),
  worldSize: isCount,
});

/** A save whose files are written. It is complete when {@link completeSaves} has returned. */
export interface PendingSave {
  readonly folder: SaveFolder;
  readonly place: SavePlace;
  /** This rank's, in the ring that saves. */
  readonly rank: number;
  /** Settles when the files of this rank are on the disk. */
  readonly written: Promise<Sums>;
  /** The sums of all ranks that save, by rank, as soon as this rank knows them. */
  all?: readonly Sums[] | undefined;
}

/** The name, in the metadata of a rank's file, of {@link SaveContent.state}. */
export const STATE_KEY = 'gradring';

const isSeen = isWith<{ step: number; number: number }>({
  step: isBetween(0, LARGEST_NUMBER),
  number: isBetween(0, LARGEST_NUMBER - 1),
});
const isSums = isWith<Sums>({ weights: isOptional(isFileSum), own: isFileSum });

/** What a rank tells of a save before it is completed. */
type Part = Pick<PendingSave, 'place' | 'rank' | 'all'>;

const areParts = isListOf(isWith<Part>({ place: isSavePlace, rank: isCount, all: isOptional(isListOf(isSums)) }));

/** What has become of a save. The same on all ranks. */
export interface Completion {
  /** Not, if a rank was lost before it was complete. Then the one before stays. */
  readonly isComplete: boolean;
  /** The lowest rank that had a part in it. */
  readonly root: number;
}

/**
 * Saves a checkpoint, on all ranks together, and returns its folder: {@link placeSave}, {@link writeSave} and
 * {@link completeSaves}. A crash at any moment leaves the last complete checkpoint as it is.
 *
 * @throws GradringError on every rank `ERR_CHECKPOINT` if one cannot write, naming rank and path, and
 *   `ERR_INVALID_ARGUMENT` if JSON would change its state. Then what was written is removed, and the ring may still be
 *   used. And what a collective throws.
 */
export async function saveCheckpoint(ranks: Ranks, input: SaveInput): Promise<string> {
  const { rank } = ranks;
  const place = await placeSave(ranks, input, input.step);
  const written = writeSave(input, place, rank, input);
  written.catch(() => undefined); // completeSaves tells it
  const [completion] = await completeSaves(ranks, [{ folder: input, place, rank, written }]);
  if (completion?.isComplete !== true) {
    throw new GradringError('ERR_PROTOCOL', 'A rank does not say that it has saved, and has lost nothing.');
  }
  return pathOf(input, place);
}

/**
 * Agrees with the other ranks where the next save is written.
 *
 * @param prepare What this rank does before. If it throws, so do all ranks.
 */
export async function placeSave(
  ranks: Ranks,
  { dir }: SaveFolder,
  step: number,
  prepare: () => Promise<void> = async () => undefined,
): Promise<SavePlace> {
  const seen = await together(ranks, isSeen, async () => {
    await prepare();
    await makeFolder(dir, PRIVATE_FOLDER);
    const [newest] = await listSaves(dir);
    return { step, number: newest?.number ?? 0 };
  });
  requireSameStep(seen.map(each => each.step));
  return { number: 1 + Math.max(...seen.map(each => each.number)), step, worldSize: ranks.worldSize };
}

/**
 * A copy of what a rank writes, which does not change when the training goes on.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for what a file cannot hold.
 */
export async function copyOf({ weights, own, state }: SaveContent, rank: number): Promise<SaveContent> {
  const copyAll = async (tensors: readonly TensorSource[]) => {
    const copies: TensorSource[] = [];
    for (const tensor of tensors) {
      const bytes = (await tensor.bytes()).slice();
      copies.push({ ...tensor, bytes: () => bytes });
    }
    return copies;
  };
  const value = structuredClone(plainState(state));
  const copies = { weights: await copyAll(rank === 0 ? weights : []), own: await copyAll(own), state: () => value };
  for (const tensors of [copies.weights, copies.own]) encodeHeader(inFileOrder(tensors), new Map()); // checks the names
  return copies;
}

const plainState = (state: () => unknown) => requirePlain(state(), 'A checkpoint cannot hold', '');

/** Writes the files of this rank. */
export async function writeSave(
  { dir }: SaveFolder,
  place: SavePlace,
  rank: number,
  { weights, own, state }: SaveContent,
): Promise<Sums> {
  const path = join(dir, nameOf(place));
  await makeFolder(path, folderModeIn(dir));
  const metadata = new Map([[STATE_KEY, JSON.stringify(plainState(state))]]);
  const sum = { own: await writeTensorFile(join(path, rankFile(rank)), rank, own, metadata) };
  if (rank !== 0) return sum;
  return { ...sum, weights: await writeTensorFile(join(path, WEIGHTS_FILE), rank, weights, new Map()) };
}

/**
 * Completes saves whose files are being written, on all ranks together: waits until the files of all ranks are on disk,
 * and writes the manifest, with which a checkpoint is complete. The ring may have changed since the saves began. Ranks
 * that were not there then give none.
 *
 * @param check Called on all ranks if there is a save.
 * @throws as {@link saveCheckpoint}, when it has completed what it could.
 */
export async function completeSaves(
  ranks: Ranks,
  saves: readonly PendingSave[],
  check: () => Promise<void> = async () => undefined,
): Promise<Completion[]> {
  const undo = async () => {
    await Promise.allSettled(saves.map(({ written }) => written));
    for (const { folder, place, all } of saves) if (all === undefined) await undoSave(folder, place);
  };
  const own = saves.map(({ place, rank, all }) => ({ place, rank, all }));
  const parts = await together(ranks, areParts, () => own, undo);
  const count = Math.max(...parts.map(of => of.length));
  const other = parts.findIndex(of => of.length > 0 && of.length < count);
  if (other !== -1) throw brokenValue(other);
  if (count > 0) await check();
  const completions: Completion[] = [];
  let failure: unknown;
  for (let i = 0; i < count; i++) {
    try {
      const of = parts.map(each => each[i]);
      completions.push(await completeSave(ranks, saves[i], of));
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      failure ??= error;
    }
  }
  if (failure !== undefined) throw failure;
  return completions;
}

/** @param parts By rank. Undefined for a rank that was not there when the save began. */
async function completeSave(
  ranks: Ranks,
  save: PendingSave | undefined,
  parts: readonly (Part | undefined)[],
): Promise<Completion> {
  const root = parts.findIndex(part => part !== undefined);
  const { place } = parts[root]!;
  const other = parts.findIndex((part, i) => part !== undefined && (!isDeepStrictEqual(part.place, place) || parts.findIndex(each => each?.rank === part.rank) !== i)); // prettier-ignore
  if (other !== -1) throw brokenValue(other);
  // Some rank may have completed it before another was lost, and have removed earlier saves: then it must stay.
  const source = parts.findIndex(part => part?.all !== undefined);
  const undo = () => (save === undefined || source !== -1 ? undefined : undoSave(save.folder, place));
  const sums = await together(ranks, isOptional(isSums), () => save?.written, undo);
  const all = source === -1 ? inOrder(parts, sums, place.worldSize) : parts[source]!.all!;
  if (all === undefined) return { root, isComplete: false };
  const isForged = (part: Part | undefined, i: number) => part !== undefined && !isDeepStrictEqual(all[part.rank], sums[i]); // prettier-ignore
  const [first] = all;
  if (first?.weights === undefined || all.length !== place.worldSize || parts.some(isForged)) {
    throw brokenValue(source === -1 ? root : source);
  }
  if (save !== undefined) save.all = all;
  const name = nameOf(place);
  const manifest = encodeManifest({ ...place, weights: first.weights, ranks: all.map(({ own }) => own) });
  const writeManifest = async (dir: string) => {
    if (hasManifest(dir, { name, number: place.number })) return; // of another rank, or of another ring
    await writeDurably(join(dir, name, MANIFEST_FILE), ranks.rank, [manifest]);
  };
  const commit = async () => {
    if (save === undefined || ranks.rank !== root) return [];
    await writeManifest(save.folder.dir);
    return namesToKeep(save.folder);
  };
  const kept = (await together(ranks, isListOf(isText), commit, undo))[root]!;
  if (!kept.includes(name)) throw brokenValue(root); // or this rank would remove all
  await together(ranks, isNothing, async () => {
    if (save === undefined) return;
    const { dir } = save.folder;
    await writeManifest(dir); // on a disk that root does not share
    for (const each of await listSaves(dir)) {
      if (each.number <= place.number && !kept.includes(each.name)) await removeSave(dir, each.name);
    }
  });
  return { root, isComplete: true };
}

/** The sums of all ranks that save, by their ranks then. Undefined if one is missing. */
function inOrder(
  parts: readonly (Part | undefined)[],
  sums: readonly (Sums | undefined)[],
  worldSize: number,
): Sums[] | undefined {
  const all: Sums[] = [];
  parts.forEach((part, i) => {
    const own = sums[i];
    if (part !== undefined && own !== undefined && part.rank < worldSize) all[part.rank] = own;
  });
  return Object.keys(all).length === worldSize ? all : undefined;
}

/** Whether a save has failed, alike on all ranks: the ring can still be used. */
export function isCheckpointError(error: unknown): error is GradringError {
  return error instanceof GradringError && error.code.startsWith('ERR_CHECKPOINT');
}

/** What cannot be removed does no harm, and the next save removes it. */
const undoSave = ({ dir }: SaveFolder, place: SavePlace) => removeSave(dir, nameOf(place)).catch(() => undefined);

const nameOf = ({ number, step }: SavePlace) => folderName(number, step);

/** The folder of a save. */
export function pathOf({ dir }: SaveFolder, place: SavePlace): string {
  return join(dir, nameOf(place));
}

/** The sums of the files that a rank has written. Rank 0 writes the weights. */
export interface Sums {
  readonly weights?: FileSum | undefined;
  readonly own: FileSum;
}

/** As one rank sees it: on its own disk, another rank may lack the manifest of a checkpoint that is complete. */
async function namesToKeep({ dir, keep, discarded = [] }: SaveFolder): Promise<string[]> {
  const complete = (await listSaves(dir)).filter(save => hasManifest(dir, save) && !discarded.includes(save.name));
  return complete.slice(0, keep).map(({ name }) => name);
}

function requireSameStep(steps: readonly number[]): void {
  const rank = steps.findIndex(step => step !== steps[0]);
  if (rank === -1) return;
  const words = `A checkpoint is of one step, but rank 0 is at step ${steps[0]}, and rank ${rank} at step ${steps[rank]}.`;
  throw new GradringError('ERR_CHECKPOINT', words, { rank });
}

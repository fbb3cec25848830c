import { join } from 'node:path';
import { GradringError } from '../errors';
import { folderModeIn, PRIVATE_FOLDER } from '../file-mode';
import { requirePlain } from '../plain-json';
import { folderName, hasManifest, LARGEST_NUMBER, listSaves, removeSave } from './checkpoint-folder';
import { type TensorSource, writeTensorFile } from './checkpoint-file';
import { type FileSum, isFileSum, makeFolder, writeDurably } from './durable-file';
import { encodeManifest, MANIFEST_FILE, rankFile, WEIGHTS_FILE } from './manifest';
import { brokenValue } from '../rank-values';
import { isBetween, isListOf, isOptional, isText, isWith } from '../shape';
import { isNothing, type Ranks, together } from './ranks';

/** What to save. */
export interface SaveInput {
  /** On a file system that the ranks share, or on each host's own. */
  readonly dir: string;
  /** How many complete checkpoints stay, this one included. */
  readonly keep: number;
  /** The same on all ranks. */
  readonly step: number;
  /** What all ranks have in common. Rank 0 writes it. */
  readonly weights: readonly TensorSource[];
  /** What belongs to this rank alone. */
  readonly own: readonly TensorSource[];
  /** Returns what else this rank saves: small, plain JSON. If it throws, the save fails on all ranks. */
  readonly state: () => unknown;
  /** Names of saves that do not count as complete, and are removed. */
  readonly discarded?: readonly string[];
}

/** The name, in the metadata of a rank's file, of {@link SaveInput.state}. */
export const STATE_KEY = 'gradring';

const isSeen = isWith<{ step: number; number: number }>({
  step: isBetween(0, LARGEST_NUMBER),
  number: isBetween(0, LARGEST_NUMBER - 1),
});
const isSums = isWith<Sums>({ weights: isOptional(isFileSum), own: isFileSum });

/**
 * Saves a checkpoint, on all ranks together, and returns its folder. A crash at any moment leaves the last complete
 * checkpoint as it is. The new one is complete when rank 0 has renamed its manifest; it does so when all ranks have
 * said that their files are on disk.
 *
 * @throws GradringError on every rank `ERR_CHECKPOINT` if one cannot write, naming rank and path, and
 *   `ERR_INVALID_ARGUMENT` if JSON would change its state. Then what was written is removed, and the ring may still be
 *   used. And what a collective throws.
 */
export async function saveCheckpoint(ranks: Ranks, input: SaveInput): Promise<string> {
  const { rank, worldSize } = ranks;
  const { dir, step } = input;
  const seen = await together(ranks, isSeen, async () => {
    await makeFolder(dir, PRIVATE_FOLDER);
    const [newest] = await listSaves(dir);
    return { step, number: newest?.number ?? 0 };
  });
  requireSameStep(seen.map(each => each.step));
  const number = 1 + Math.max(...seen.map(each => each.number));
  const name = folderName(number, step);
  const path = join(dir, name);

  const undo = () => removeSave(dir, name).catch(() => undefined); // the rest does no harm, and the next save removes it
  const sums = await together(ranks, isSums, () => writeOwn(path, rank, input), undo);
  const { weights } = sums[0]!;
  if (weights === undefined) throw brokenValue(0);
  const manifest = encodeManifest({ number, step, worldSize, weights, ranks: sums.map(({ own }) => own) });
  const writeManifest = () => writeDurably(join(path, MANIFEST_FILE), rank, [manifest]);
  const commit = async () => {
    if (rank !== 0) return [];
    await writeManifest();
    return namesToKeep(input);
  };
  const [kept] = await together(ranks, isListOf(isText), commit, undo);
  if (!kept!.includes(name)) throw brokenValue(0); // or this rank would remove all
  await together(ranks, isNothing, async () => {
    if (!hasManifest(dir, { name, number })) await writeManifest(); // on a disk that rank 0 does not share
    for (const save of await listSaves(dir)) {
      if (save.number <= number && !kept!.includes(save.name)) await removeSave(dir, save.name);
    }
  });
  return path;
}

/** The sums of the files that a rank has written. Rank 0 writes the weights. */
interface Sums {
  readonly weights?: FileSum | undefined;
  readonly own: FileSum;
}

async function writeOwn(path: string, rank: number, { dir, weights, own, state }: SaveInput): Promise<Sums> {
  await makeFolder(path, folderModeIn(dir));
  const metadata = new Map([[STATE_KEY, JSON.stringify(requirePlain(state(), 'A checkpoint cannot hold', ''))]]);
  const sum = { own: await writeTensorFile(join(path, rankFile(rank)), rank, own, metadata) };
  if (rank !== 0) return sum;
  return { ...sum, weights: await writeTensorFile(join(path, WEIGHTS_FILE), rank, weights, new Map()) };
}

/** As rank 0 sees it: on its own disk, another rank may lack the manifest of a checkpoint that is complete. */
async function namesToKeep({ dir, keep, discarded = [] }: SaveInput): Promise<string[]> {
  const complete = (await listSaves(dir)).filter(save => hasManifest(dir, save) && !discarded.includes(save.name));
  return complete.slice(0, keep).map(({ name }) => name);
}

function requireSameStep(steps: readonly number[]): void {
  const rank = steps.findIndex(step => step !== steps[0]);
  if (rank === -1) return;
  const words = `A checkpoint is of one step, but rank 0 is at step ${steps[0]}, and rank ${rank} at step ${steps[rank]}.`;
  throw new GradringError('ERR_CHECKPOINT', words, { rank });
}

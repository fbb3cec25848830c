import { join } from 'node:path';
import { attempt } from '../attempt';
import { GradringError } from '../errors';
import { damaged } from './checkpoint-errors';
import { readSmallFile, readTensorFile, type TensorFile } from './checkpoint-file';
import { folderName, hasManifest, isSavedName, listSaves, newestFirst, type SavedName } from './checkpoint-folder';
import {
  decodeManifest,
  encodeManifest,
  type Manifest,
  MANIFEST_FILE,
  MAX_MANIFEST_BYTES,
  rankFile,
  WEIGHTS_FILE,
} from './manifest';
import { isListOf, isOrNull, isText } from '../shape';
import { isNothing, type Ranks, together } from './ranks';
import { STATE_KEY } from './save-checkpoint';

/** A rank's part of a checkpoint. */
export interface LoadedCheckpoint {
  readonly path: string;
  readonly manifest: Manifest;
  /** On rank 0 only. */
  readonly weights: TensorFile | undefined;
  /** The files of {@link LoadInput.ranksToRead}. */
  readonly own: readonly RankFile[];
  /** Newer checkpoints that were skipped. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/** The file of a rank. */
export interface RankFile extends TensorFile {
  readonly state: unknown;
}

export interface SkippedCheckpoint {
  readonly name: string;
  readonly reason: string;
}

export interface LoadInput {
  readonly dir: string;
  /** If the newest complete checkpoint is damaged: raise an error, or take the newest one that is not. */
  readonly onDamage: 'error' | 'previous';
  /** The ranks of the saved ring whose files this rank reads. If it throws on one rank, all ranks throw that. */
  readonly ranksToRead: (manifest: Manifest) => readonly number[];
  /** Checks whether what was read can be used. If it throws on one rank, all ranks throw that. */
  readonly check: (loaded: Omit<LoadedCheckpoint, 'skipped'>) => void;
}

/**
 * Finds the newest complete checkpoint, reads this rank's part, and returns when all ranks have theirs, of the same
 * checkpoint. Each rank looks into its own `dir`. It is enough if one of them sees the manifest, because a rank's file
 * is needed only where it is read.
 *
 * @returns undefined if there is none.
 * @throws GradringError `ERR_CHECKPOINT_DAMAGED` on every rank, naming rank, path and reason; `ERR_CHECKPOINT` if a
 *   file cannot be read; what `ranksToRead` or `check` throw; and what a collective throws.
 */
export async function loadCheckpoint(ranks: Ranks, input: LoadInput): Promise<LoadedCheckpoint | undefined> {
  const { dir, onDamage } = input;
  const visible = await together(ranks, isListOf(isSavedName), async () =>
    (await listSaves(dir)).filter(save => hasManifest(dir, save)),
  );
  const byName = new Map(visible.flat().map(save => [save.name, save]));
  const skipped: SkippedCheckpoint[] = [];
  let firstDamage: unknown;
  for (const save of [...byName.values()].sort(newestFirst)) {
    try {
      return { ...(await loadOne(ranks, input, save)), skipped };
    } catch (error) {
      if (!(error instanceof GradringError) || error.code !== 'ERR_CHECKPOINT_DAMAGED') throw error;
      if (onDamage === 'error') throw error;
      firstDamage ??= error;
      skipped.push({ name: save.name, reason: error.message });
    }
  }
  if (firstDamage !== undefined) throw firstDamage;
  return undefined;
}

async function loadOne(ranks: Ranks, input: LoadInput, save: SavedName): Promise<Omit<LoadedCheckpoint, 'skipped'>> {
  const path = join(input.dir, save.name);
  const manifest = await agreeOnManifest(ranks, input, save);
  let loaded: Omit<LoadedCheckpoint, 'skipped'> | undefined;
  await together(ranks, isNothing, async () => {
    const own: RankFile[] = [];
    for (const number of input.ranksToRead(manifest)) {
      own.push(await readRankFile(join(path, rankFile(number)), manifest.ranks[number]!));
    }
    const weights = ranks.rank === 0 ? await readTensorFile(join(path, WEIGHTS_FILE), manifest.weights) : undefined;
    loaded = { path, manifest, weights, own };
    input.check(loaded);
  });
  return loaded!;
}

/** The manifest. Not every rank may see it, but ranks that do must see the same one. */
async function agreeOnManifest(ranks: Ranks, { dir }: LoadInput, save: SavedName): Promise<Manifest> {
  const path = join(dir, save.name, MANIFEST_FILE);
  const texts = await together(ranks, isOrNull(isText), async () => {
    if (!hasManifest(dir, save)) return null;
    const manifest = decodeManifest(await readSmallFile(path, MAX_MANIFEST_BYTES), path);
    if (folderName(manifest.number, manifest.step) !== save.name) throw damaged(path, 'it belongs to another folder');
    return new TextDecoder().decode(encodeManifest(manifest));
  });
  const text = texts.find(each => each !== null);
  if (text == null) throw damaged(path, 'it has disappeared');
  const rank = texts.findIndex(each => each !== null && each !== text);
  if (rank !== -1) throw damaged(path, `rank ${rank} has a different one`);
  return decodeManifest(new TextEncoder().encode(text), path);
}

async function readRankFile(path: string, expected: Manifest['weights']): Promise<RankFile> {
  const file = await readTensorFile(path, expected);
  const state = attempt((): unknown => JSON.parse(file.metadata.get(STATE_KEY)!));
  if (state === undefined) throw damaged(path, 'it does not hold the state of a rank');
  return { ...file, state };
}

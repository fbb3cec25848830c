import { lstat, readdir, rmdir, unlink } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Check, isCount, isText, isWith } from '../shape';
import { refused, systemCode } from './checkpoint-errors';
import { syncFolder } from './durable-file';
import { MANIFEST_FILE } from './manifest';

/** One save. */
export interface SavedName {
  readonly name: string;
  /** See {@link Manifest.number}. */
  readonly number: number;
}

const NAME = /^save-(\d{6,15})-step-(\d{1,15})$/;
const OUR_FILES = /^(manifest\.json|weights\.safetensors|rank-\d+\.safetensors)(\.\d+\.tmp)?$/;

/** The largest number of a save or a step that a name can have. */
export const LARGEST_NUMBER = 10 ** 15 - 1;

/** Whether that is the name of a save, which leads to no other folder. */
export const isSavedName: Check<SavedName> = (value): value is SavedName =>
  isNamed(value) && value.number === numberIn(value.name);

const isNamed = isWith<SavedName>({ name: isText, number: isCount });

function numberIn(name: string): number | undefined {
  const number = NAME.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
}

/** The name of a save's folder. The names sort in the order of the saves. */
export function folderName(number: number, step: number): string {
  return `save-${String(number).padStart(6, '0')}-step-${step}`;
}

/** The saves in a folder, complete or not, the newest first. Empty if the folder does not exist. */
export async function listSaves(dir: string): Promise<SavedName[]> {
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw refused('read', dir, error);
  }
  const saves = names.flatMap(name => {
    const number = numberIn(name);
    return number === undefined ? [] : [{ name, number }];
  });
  return saves.sort(newestFirst);
}

/** For sorting. Two saves of one number are of different runs; their order only has to be the same on all ranks. */
export function newestFirst(a: SavedName, b: SavedName): number {
  return b.number - a.number || (a.name < b.name ? 1 : -1);
}

/** Whether this rank sees the save's manifest. */
export function hasManifest(dir: string, { name }: SavedName): boolean {
  return existsSync(join(dir, name, MANIFEST_FILE));
}

/**
 * Removes a save. The manifest goes first, so that what is left after a crash does not look complete. What gradring did
 * not make stays: other files, and with them the folder; and a link to the save of another run, which may be read, but
 * is that run's to remove. Several ranks may do this at the same time.
 */
export async function removeSave(dir: string, name: string): Promise<void> {
  const path = join(dir, name);
  try {
    if (!(await lstat(path)).isDirectory()) return;
    await unlink(join(path, MANIFEST_FILE)).catch(unlessGone);
    await syncFolder(path);
    for (const file of await readdir(path)) {
      if (OUR_FILES.test(file)) await unlink(join(path, file)).catch(unlessGone);
    }
    await rmdir(path);
  } catch (error) {
    if (!['ENOENT', 'ENOTEMPTY'].includes(systemCode(error) ?? '')) throw refused('remove', path, error);
  }
}

function unlessGone(error: unknown): void {
  if (systemCode(error) !== 'ENOENT') throw error;
}

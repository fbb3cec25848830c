import { readdir, rmdir, unlink } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { refused, systemCode } from './checkpoint-errors';
import { syncFolder } from './durable-file';
import { MANIFEST_FILE } from './manifest';

/** One save, by its folder's name. */
export interface SavedName {
  readonly name: string;
  /** See {@link Manifest.number}. */
  readonly number: number;
}

const NAME = /^save-(\d{6,15})-step-(\d{1,15})$/;
const OUR_FILES = /^(manifest\.json|weights\.safetensors|rank-\d+\.safetensors)(\.\d+\.tmp)?$/;

/** The folder of a save: they sort as they were made. */
export function folderName(number: number, step: number): string {
  return `save-${String(number).padStart(6, '0')}-step-${step}`;
}

/** The saves in a folder, complete or not, the newest first. None if the folder does not exist. */
export async function listSaves(dir: string): Promise<SavedName[]> {
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw refused('read', dir, error);
  }
  const saves = names.flatMap(name => {
    const number = NAME.exec(name)?.[1];
    return number === undefined ? [] : [{ name, number: Number(number) }];
  });
  return saves.sort(newestFirst);
}

/** For sorting; two saves of one number are of different runs, and any order will do that is the same on all ranks. */
export function newestFirst(a: SavedName, b: SavedName): number {
  return b.number - a.number || (a.name < b.name ? 1 : -1);
}

/** Whether a save's manifest can be seen here. */
export function hasManifest(dir: string, { name }: SavedName): boolean {
  return existsSync(join(dir, name, MANIFEST_FILE));
}

/**
 * Removes a save: its manifest first, so that what is left after a crash is not taken for complete. Files that are not
 * ours stay, and so does then the folder. Several ranks may do it at the same time.
 */
export async function removeSave(dir: string, name: string): Promise<void> {
  const path = join(dir, name);
  try {
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

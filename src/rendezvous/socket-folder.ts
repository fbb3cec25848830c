import { accessSync, constants, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { GradringError } from '../errors';

/** Linux's folder in memory. */
const MEMORY = '/dev/shm';

/**
 * Makes a folder for unix sockets that only this user may enter. The caller removes it.
 *
 * @param parent Where to make it. Default: in memory if this host has a folder for that, else among temporary files.
 * @throws GradringError `ERR_ADDRESS_IN_USE` if none can be made there.
 */
export function makeSocketFolder(parent = socketParent()): string {
  try {
    return mkdtempSync(join(resolve(parent), 'gradring-')); // mode 0700
  } catch (error) {
    const words = `No folder for a unix socket can be made in ${parent}: ${(error as Error).message}. Set TMPDIR to a folder that you can write to, or set GRADRING_TRANSPORT=tcp.`;
    throw new GradringError('ERR_ADDRESS_IN_USE', words, {}, { cause: error });
  }
}

/** Whether a file at this path is in memory. */
export function isInMemory(path: string): boolean {
  return path.startsWith(`${MEMORY}/`);
}

function socketParent(): string {
  if (isWritable(MEMORY)) return MEMORY;
  const parent = tmpdir();
  const longest = parent.length + '/gradring-XXXXXX/gradring-XXXXXX/left'.length;
  return longest < 100 ? parent : '/tmp'; // the address of a unix socket has 108 bytes
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

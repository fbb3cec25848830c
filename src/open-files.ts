import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { GradringError } from './errors';
import { processLimit } from './process-limits';

/**
 * How many files this process may have open, its connections included. Undefined if the system does not say it. It is
 * the hard limit, because Node raises the soft one when it starts. It is read when this module is loaded, because later
 * there may be no descriptor left to read it with.
 */
export const openFilesLimit = processLimit('Max open files');

/** The files that a rank opens to join a ring, with some to spare: at most 30 were counted. */
export const FILES_OF_A_RANK = 40;

/** This many files are certainly enough for a link and its lane. */
export const FILES_OF_A_LINK = 16;

/** The limit in messages. */
const LIMIT = openFilesLimit ?? 'ulimit -n';

/** A process that can open fewer files counts as out of files: strangers who connect may take the last ones. */
const LAST_FILES = 4;

const AGAIN_MS = 100;

const ADVICE =
  'If strangers connect to it, keep them out. Otherwise raise the hard limit: `ulimit -n` as root, LimitNOFILE of systemd, or `docker run --ulimit nofile=65536`.';

/** Whether this process can open this many more files. */
export function canOpenFiles(count: number): boolean {
  return whyNotOpened(count) === undefined;
}

/**
 * Settles when this process can open this many more files. Strangers who connect to its ports can use up all that it
 * may open, but none of them for long.
 *
 * @param who Who needs them, for the message: `Rank 0`.
 * @throws GradringError `ERR_OPEN_FILES` if it still cannot after `timeoutMs`.
 */
export async function untilFilesCanBeOpened(count: number, who: string, timeoutMs = 0): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!canOpenFiles(count)) {
    if (performance.now() >= deadline) {
      const words = `${who} must open ${count} more files and connections, which is more than this process may have open (${LIMIT}). ${ADVICE}`;
      throw new GradringError('ERR_OPEN_FILES', words);
    }
    await sleep(AGAIN_MS);
  }
}

/**
 * For the end of a message: that this process cannot open or accept anything. Empty if it can.
 *
 * @param who What this process is: `rank 0`.
 * @param error The error of what has failed, if it is known. It may name a limit although there are descriptors again.
 */
export function ifOutOfFiles(who: string, error?: Error): string {
  const code = limitOf(error) ?? whyNotOpened(LAST_FILES);
  if (code === undefined) return '';
  const [whose, limit] = code === 'ENFILE' ? ['The system', 'fs.file-max'] : [capital(who), LIMIT];
  return ` ${whose} has as many files and connections open as it may (${limit}). ${ADVICE}`;
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

type Limit = 'EMFILE' | 'ENFILE';

/** Opens this many files and closes them again. Returns the limit that does not allow it. */
function whyNotOpened(count: number): Limit | undefined {
  const files: number[] = [];
  try {
    while (files.length < count) files.push(openSync(devNull, 'r'));
    return undefined;
  } catch (error) {
    return limitOf(error as Error);
  } finally {
    for (const file of files) closeSync(file);
  }
}

/** The limit that has caused an error. */
function limitOf(error: NodeJS.ErrnoException | undefined): Limit | undefined {
  return error?.code === 'EMFILE' || error?.code === 'ENFILE' ? error.code : undefined;
}

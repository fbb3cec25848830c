import { closeSync, openSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { GradringError } from './errors';

/**
 * How many files this process may have open, its connections included. Undefined if the system does not say it. It is
 * the hard limit, because Node raises the soft one when it starts. Read at once: later there may be no descriptor left
 * to read it with.
 */
export const openFilesLimit = readLimit();

/** The files that a rank opens to join a ring, with some to spare: at most 30 were counted. */
export const FILES_OF_A_RANK = 40;

/** As many of them are certainly enough for a link and its lane. */
export const FILES_OF_A_LINK = 16;

/** If fewer can be opened, the process counts as out of files. Strangers who connect may take the last ones. */
const LAST_FILES = 4;

const AGAIN_MS = 100;

const ADVICE =
  'If strangers connect to its ports, keep them out. Else raise the hard limit: `ulimit -n` as root, LimitNOFILE of systemd, or `docker run --ulimit nofile=65536`.';

/** Whether this process can open so many more files. */
export function canOpenFiles(count: number): boolean {
  return whyNotOpened(count) === undefined;
}

/**
 * Settles when this process can open so many more files. Strangers who connect to its ports can take all that it may
 * open, but each only for a while.
 *
 * @param who Who needs them, for the message: `Rank 0`.
 * @throws GradringError `ERR_OPEN_FILES` if it cannot within that time.
 */
export async function untilFilesCanBeOpened(count: number, who: string, timeoutMs = 0): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!canOpenFiles(count)) {
    if (performance.now() >= deadline) {
      const words = `${who} must open ${count} more files and connections, but this process may have only ${openFilesLimit} open. ${ADVICE}`;
      throw new GradringError('ERR_OPEN_FILES', words);
    }
    await sleep(AGAIN_MS);
  }
}

/** For the end of a message: that this process cannot open or accept anything. Empty if it can. */
export function ifOutOfFiles(): string {
  const code = whyNotOpened(LAST_FILES);
  if (code === undefined) return '';
  if (code === 'ENFILE') return ' The system has as many files and connections open as it may: raise fs.file-max.';
  return ` This process has as many files and connections open as it may (${openFilesLimit}). ${ADVICE}`;
}

/** Opens so many files and closes them again. Returns the code of the error, if there is one. */
function whyNotOpened(count: number): string | undefined {
  const files: number[] = [];
  try {
    while (files.length < count) files.push(openSync(devNull, 'r'));
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  } finally {
    for (const file of files) closeSync(file);
  }
}

function readLimit(): number | undefined {
  try {
    const limit = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? undefined : limit === 'unlimited' ? Infinity : Number(limit);
  } catch {
    return undefined;
  }
}

import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { fileModeIn } from '../file-mode';
import { isBetween, isCount, isWith } from '../shape';
import { refused } from './checkpoint-errors';

/** Shows whether a file is the one that was written. */
export interface FileSum {
  readonly bytes: number;
  readonly crc32: number;
}

export const isFileSum = isWith<FileSum>({ bytes: isCount, crc32: isBetween(0, 2 ** 32 - 1) });

/** How much is written and added to the checksum at once. It takes some ms, so the process stays responsive. */
const CHUNK_BYTES = 8 * 2 ** 20;

/**
 * Writes a file so that its name never stands for a part of it: writes it under another name, syncs it, renames it, and
 * syncs the folder. A part must not change before the next part is asked for. The mode is that of {@link fileModeIn}.
 *
 * @param writer Distinguishes processes that may write the same file at the same time.
 * @throws GradringError `ERR_CHECKPOINT` with the path. Nothing is left behind.
 */
export async function writeDurably(
  path: string,
  writer: number,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<FileSum> {
  const aside = `${path}.${writer}.tmp`;
  try {
    const sum = await writeAll(aside, parts);
    await rename(aside, path);
    await syncFolder(dirname(path));
    return sum;
  } catch (error) {
    await rm(aside, { force: true }).catch(() => undefined); // the first error is the one to report
    throw refused('write', path, error);
  }
}

/**
 * Makes a folder, and missing folders above it, so that they survive a loss of power.
 *
 * @param mode That of the folders which it makes, less the umask.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    const first = await mkdir(path, { recursive: true, mode });
    if (first === undefined) return;
    for (let made = path; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made));
  } catch (error) {
    throw refused('write', path, error);
  }
}

/** Writes to the disk which names were made in a folder, or removed from it. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function writeAll(path: string, parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<FileSum> {
  await rm(path, { force: true }); // what a crash has left, or a link, which would lead elsewhere
  const file = await open(path, 'wx', fileModeIn(dirname(path)));
  const sum = { bytes: 0, crc32: 0 };
  try {
    for await (const part of parts) {
      for (let start = 0; start < part.byteLength; start += CHUNK_BYTES) {
        const chunk = part.subarray(start, start + CHUNK_BYTES);
        const writing = file.write(chunk, 0);
        sum.crc32 = crc32(chunk, sum.crc32); // meanwhile the system writes
        let { bytesWritten } = await writing;
        while (bytesWritten < chunk.byteLength) {
          bytesWritten += (await file.write(chunk, bytesWritten)).bytesWritten;
        }
        sum.bytes += chunk.byteLength;
      }
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return sum;
}

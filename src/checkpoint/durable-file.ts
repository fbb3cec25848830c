import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { refused } from './checkpoint-errors';

/** What tells whether a file is the one that was written. */
export interface FileSum {
  readonly bytes: number;
  readonly crc32: number;
}

/** Written, and summed up, at once: some milliseconds' worth, so that the process stays responsive. */
const CHUNK_BYTES = 8 * 2 ** 20;

/**
 * Writes a file so that under its name there is never anything but all of it: aside first, then to the disk, then
 * renamed, and the name to the disk. What the parts hold must not change before the next part is asked for.
 *
 * @param writer Tells apart those who may write the same file at the same time.
 * @throws GradringError `ERR_CHECKPOINT` with the path; nothing is left behind.
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
    await rm(aside, { force: true }).catch(() => undefined); // what went wrong first is what to tell
    throw refused('write', path, error);
  }
}

/** Makes a folder, and those above it that are missing, to stay after a loss of power. */
export async function makeFolder(path: string): Promise<void> {
  try {
    const first = await mkdir(path, { recursive: true });
    if (first === undefined) return;
    for (let made = path; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made));
  } catch (error) {
    throw refused('write', path, error);
  }
}

/** Brings names that were made in a folder, or removed from it, to the disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function writeAll(path: string, parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<FileSum> {
  const file = await open(path, 'w');
  const sum = { bytes: 0, crc32: 0 };
  try {
    for await (const part of parts) {
      for (let start = 0; start < part.byteLength; start += CHUNK_BYTES) {
        const chunk = part.subarray(start, start + CHUNK_BYTES);
        const writing = file.write(chunk, 0);
        sum.crc32 = crc32(chunk, sum.crc32); // while the system writes
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

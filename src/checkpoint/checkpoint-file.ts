import { open, stat, type FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { damaged, refused, systemCode } from './checkpoint-errors';
import { type FileSum, writeDurably } from './durable-file';
import { decodeHeader, encodeHeader, headerLength, inFileOrder, PREFIX_BYTES, type TensorShape } from './safetensors';

/** A tensor to be written. */
export interface TensorSource extends TensorShape {
  /** Its elements, little-endian. They must stay as they are until the file is written. */
  bytes(): Uint8Array | Promise<Uint8Array>;
}

/** A tensor that was read. Its bytes are an array of their own. */
export interface ReadTensor extends TensorShape {
  readonly bytes: Uint8Array;
}

/** The content of a file. */
export interface TensorFile {
  readonly tensors: ReadonlyMap<string, ReadTensor>;
  readonly metadata: ReadonlyMap<string, string>;
}

/** How much is read at once. */
const CHUNK_BYTES = 16 * 2 ** 20;

/** Writes tensors as a safetensors file; see {@link writeDurably}. */
export function writeTensorFile(
  path: string,
  writer: number,
  tensors: readonly TensorSource[],
  metadata: ReadonlyMap<string, string>,
): Promise<FileSum> {
  const ordered = inFileOrder(tensors);
  async function* parts(): AsyncGenerator<Uint8Array> {
    yield encodeHeader(ordered, metadata);
    for (const tensor of ordered) yield await tensor.bytes();
  }
  return writeDurably(path, writer, parts());
}

/**
 * Reads a safetensors file into memory, once, and checks that it is the one that was written. Allocates no more bytes
 * than the file has.
 *
 * @throws GradringError `ERR_CHECKPOINT_DAMAGED` if it is missing or has changed, `ERR_CHECKPOINT` if it cannot be
 *   read.
 */
export async function readTensorFile(path: string, expected: FileSum): Promise<TensorFile> {
  const file = await openChecked(path, expected.bytes);
  try {
    let sum = 0;
    const read = async (bytes: number) => {
      const part = await readExactly(file, bytes, path);
      for (let start = 0; start < bytes; start += CHUNK_BYTES) {
        sum = crc32(part.subarray(start, start + CHUNK_BYTES), sum);
      }
      return part;
    };
    const length = headerLength(await read(Math.min(PREFIX_BYTES, expected.bytes)), expected.bytes, path);
    const header = decodeHeader(await read(length), expected.bytes - PREFIX_BYTES - length, path);
    const tensors = new Map<string, ReadTensor>();
    for (const { name, type, shape, byteLength } of header.tensors) {
      tensors.set(name, { name, type, shape, bytes: await read(byteLength) });
    }
    if (sum !== expected.crc32) throw damaged(path, 'its checksum has changed since it was written');
    return { tensors, metadata: header.metadata };
  } finally {
    await file.close();
  }
}

/**
 * Reads a small file whole.
 *
 * @throws as {@link readTensorFile}, and for a file that is larger than that.
 */
export async function readSmallFile(path: string, maxBytes: number): Promise<Uint8Array> {
  const file = await openChecked(path, undefined);
  try {
    const { size } = await file.stat();
    if (size > maxBytes) throw damaged(path, `it has ${size} bytes; at most ${maxBytes} are allowed`);
    return await readExactly(file, size, path);
  } finally {
    await file.close();
  }
}

async function openChecked(path: string, bytes: number | undefined): Promise<FileHandle> {
  try {
    // Opening a named pipe would wait for its other end.
    const found = await stat(path);
    if (!found.isFile()) throw damaged(path, 'it is not a file');
    if (bytes !== undefined && found.size !== bytes) {
      throw damaged(path, `it has ${found.size} bytes, but had ${bytes} when it was written`);
    }
    return await open(path, 'r');
  } catch (error) {
    throw explained(error, path);
  }
}

async function readExactly(file: FileHandle, bytes: number, path: string): Promise<Uint8Array> {
  const buffer = new Uint8Array(bytes);
  try {
    for (let done = 0; done < bytes;) {
      const { bytesRead } = await file.read(buffer, done, Math.min(CHUNK_BYTES, bytes - done));
      if (bytesRead === 0) throw damaged(path, `it ends ${bytes - done} bytes too early`);
      done += bytesRead;
    }
  } catch (error) {
    throw explained(error, path);
  }
  return buffer;
}

function explained(error: unknown, path: string): unknown {
  const code = systemCode(error);
  if (code === 'ENOENT') return damaged(path, 'it is missing');
  return code?.startsWith('ERR_CHECKPOINT') ? error : refused('read', path, error);
}

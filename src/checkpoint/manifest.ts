import { createHash } from 'node:crypto';
import { attempt } from '../attempt';
import { isCount, isObject } from '../shape';
import { damaged } from './checkpoint-errors';
import type { FileSum } from './durable-file';

/** The files of a checkpoint. If the manifest exists, the whole checkpoint is on the disks. */
export interface Manifest {
  /** Counts the saves, from 1. Later saves have larger numbers, whatever their steps. */
  readonly number: number;
  /** Optimizer steps taken. */
  readonly step: number;
  readonly worldSize: number;
  readonly weights: FileSum;
  /** By rank. */
  readonly ranks: readonly FileSum[];
}

export const MANIFEST_FILE = 'manifest.json';
export const WEIGHTS_FILE = 'weights.safetensors';

/** The name of a rank's file. */
export function rankFile(rank: number): string {
  return `rank-${rank}.safetensors`;
}

const FORMAT = 'gradring checkpoint';
const VERSION = 1;

/** Enough for 100,000 ranks. */
export const MAX_MANIFEST_BYTES = 16 * 2 ** 20;

/** The content of the file: JSON, with its own SHA-256. */
export function encodeManifest({ number, step, worldSize, weights, ranks }: Manifest): Uint8Array {
  const files = [weights, ...ranks].map(({ bytes, crc32 }, i) => ({ name: fileName(i), bytes, crc32 }));
  const content = { format: FORMAT, version: VERSION, number, step, worldSize, files };
  return new TextEncoder().encode(`${JSON.stringify({ ...content, sha256: digest(content) }, null, 1)}\n`);
}

/** @throws GradringError `ERR_CHECKPOINT_DAMAGED` for anything that {@link encodeManifest} does not write. */
export function decodeManifest(encoded: Uint8Array, path: string): Manifest {
  const { sha256, ...content } = parseObject(encoded, path);
  const { format, version, number, step, worldSize, files } = content;
  if (format !== FORMAT) throw damaged(path, 'it is not the manifest of a checkpoint');
  if (version !== VERSION) {
    throw damaged(path, `it has format version ${JSON.stringify(version)}, but this gradring reads version ${VERSION}`);
  }
  if (sha256 !== digest(content)) throw damaged(path, 'its checksum does not fit its content');
  if (!isCount(number) || !isCount(step) || !isCount(worldSize) || worldSize === 0) {
    throw damaged(path, 'it lacks number, step or world size');
  }
  if (!Array.isArray(files) || files.length !== worldSize + 1) throw damaged(path, 'it does not list the files');
  const [weights, ...ranks] = files.map((file: unknown, i): FileSum => {
    const { name, bytes, crc32 } = (file ?? {}) as Record<string, unknown>;
    // Names are fixed, so that none can lead out of the checkpoint's folder.
    if (name !== fileName(i)) throw damaged(path, `file ${i} is not called ${fileName(i)}`);
    if (!isCount(bytes) || !isCount(crc32)) throw damaged(path, `file ${i} lacks its size or checksum`);
    return { bytes, crc32 };
  });
  return { number, step, worldSize, weights: weights!, ranks };
}

function parseObject(encoded: Uint8Array, path: string): Record<string, unknown> {
  const value = attempt((): unknown => JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(encoded)));
  if (!isObject(value)) throw damaged(path, 'it is not a JSON object in UTF-8');
  return value;
}

function fileName(index: number): string {
  return index === 0 ? WEIGHTS_FILE : rankFile(index - 1);
}

function digest(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

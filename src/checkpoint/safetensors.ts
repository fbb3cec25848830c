import { invalidArgument } from '../errors';
import { isCount, isListOf, isObject, isRecordOf, isText } from '../shape';
import { damaged } from './checkpoint-errors';

// https://github.com/huggingface/safetensors#format: 8 bytes, little-endian, with the length of the header; the header,
// JSON in UTF-8; then the data of all tensors, without a gap.

/** Bytes of an element, for the types that gradring writes. */
const ELEMENT_BYTES = { F32: 4, I32: 4, BOOL: 1 } as const;

export const ELEMENT_TYPES = Object.keys(ELEMENT_BYTES) as ElementType[];

export type ElementType = keyof typeof ELEMENT_BYTES;

export interface TensorShape {
  /** Any text except {@link METADATA}. */
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
}

/** A tensor in a file. */
export interface PlacedTensor extends TensorShape {
  /** Counted from the start of the data. */
  readonly start: number;
  readonly byteLength: number;
}

export interface Header {
  /** In the order of their data. */
  readonly tensors: readonly PlacedTensor[];
  readonly metadata: ReadonlyMap<string, string>;
}

/** Bytes before the header. They hold its length. */
export const PREFIX_BYTES = 8;

/** The header's limit in other implementations of the format. */
const MAX_HEADER_BYTES = 100_000_000;

const METADATA = '__metadata__';

const areTexts = isRecordOf(isText);
const areCounts = isListOf(isCount);

/** The tensors in the order of a file: those with the largest elements first, so that all are aligned. */
export function inFileOrder<T extends TensorShape>(tensors: readonly T[]): T[] {
  return [...tensors].sort((a, b) => ELEMENT_BYTES[b.type] - ELEMENT_BYTES[a.type]);
}

/**
 * Everything before the data. The data have to follow in the same order.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for a name that occurs twice or is reserved.
 */
export function encodeHeader(tensors: readonly TensorShape[], metadata: ReadonlyMap<string, string>): Uint8Array {
  const entries: [string, unknown][] = [[METADATA, Object.fromEntries(metadata)]];
  const names = new Set([METADATA]);
  let end = 0;
  for (const { name, type, shape } of tensors) {
    if (names.has(name)) throw invalidArgument(`A checkpoint cannot hold two tensors with the name '${name}'.`);
    names.add(name);
    const start = end;
    end += byteLengthOf(type, shape);
    entries.push([name, { dtype: type, shape, data_offsets: [start, end] }]);
  }
  const json = JSON.stringify(Object.fromEntries(entries));
  const length = Math.ceil(Buffer.byteLength(json) / 8) * 8;
  if (length > MAX_HEADER_BYTES) throw invalidArgument(`A checkpoint's header would be ${length} bytes long.`);
  const bytes = Buffer.alloc(PREFIX_BYTES + length, ' ');
  bytes.writeBigUInt64LE(BigInt(length));
  bytes.write(json, PREFIX_BYTES);
  return bytes;
}

/**
 * The length of the header of a file, from its first {@link PREFIX_BYTES}.
 *
 * @throws GradringError `ERR_CHECKPOINT_DAMAGED` if the file has no room for it.
 */
export function headerLength(prefix: Uint8Array, fileBytes: number, path: string): number {
  if (prefix.byteLength < PREFIX_BYTES) throw damaged(path, `it ends after ${prefix.byteLength} bytes`);
  const length = new DataView(prefix.buffer, prefix.byteOffset, PREFIX_BYTES).getBigUint64(0, true);
  const most = BigInt(Math.min(MAX_HEADER_BYTES, fileBytes - PREFIX_BYTES));
  if (length > most) throw damaged(path, `its header would be ${length} bytes long, of ${fileBytes} in all`);
  return Number(length);
}

/**
 * Reads a header, without its prefix.
 *
 * @param dataBytes How many bytes follow it in the file.
 * @throws GradringError `ERR_CHECKPOINT_DAMAGED` for anything that {@link encodeHeader} would not have written.
 */
export function decodeHeader(bytes: Uint8Array, dataBytes: number, path: string): Header {
  const { [METADATA]: metadata = {}, ...entries } = parseObject(bytes, path);
  if (!areTexts(metadata)) throw damaged(path, 'its metadata are not texts');
  const tensors = Object.entries(entries).map(([name, entry]) => readEntry(name, entry, path));
  tensors.sort((a, b) => a.start - b.start || a.byteLength - b.byteLength);
  let end = 0;
  for (const { name, start, byteLength } of tensors) {
    if (start !== end) throw damaged(path, `tensor '${name}' begins at byte ${start}, not at ${end}`);
    end += byteLength;
  }
  if (end !== dataBytes) throw damaged(path, `its tensors have ${end} bytes, but ${dataBytes} follow the header`);
  return { tensors, metadata: new Map(Object.entries(metadata)) };
}

function parseObject(bytes: Uint8Array, path: string): Record<string, unknown> {
  if (bytes[0] !== 0x7b) throw damaged(path, "its header does not begin with '{'");
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Record<string, unknown>;
  } catch {
    throw damaged(path, 'its header is not JSON in UTF-8');
  }
}

function readEntry(name: string, entry: unknown, path: string): PlacedTensor {
  if (!isObject(entry)) throw damaged(path, `tensor '${name}' is not an object`);
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== 'string' || !Object.hasOwn(ELEMENT_BYTES, dtype)) {
    throw damaged(path, `the type of tensor '${name}' is none of ${Object.keys(ELEMENT_BYTES).join(', ')}`);
  }
  if (!areCounts(shape)) throw damaged(path, `tensor '${name}' has no shape`);
  if (!areCounts(offsets) || offsets.length !== 2) throw damaged(path, `tensor '${name}' has no offsets`);
  const type = dtype as ElementType;
  const [start, end] = offsets as [number, number];
  const byteLength = byteLengthOf(type, shape);
  // A difference of safe integers is exact; start + byteLength might not be.
  if (end - start !== byteLength) {
    throw damaged(path, `tensor '${name}' has ${byteLength} bytes by its shape, but ${end - start} by its offsets`);
  }
  return { name, type, shape, start, byteLength };
}

/** The bytes of a tensor. A product that is no safe integer may be rounded, or infinite; no count is as large. */
export function byteLengthOf(type: ElementType, shape: readonly number[]): number {
  if (shape.includes(0)) return 0;
  return shape.reduce((product, size) => product * size, ELEMENT_BYTES[type]);
}

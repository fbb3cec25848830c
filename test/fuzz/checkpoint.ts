import { createHash } from 'node:crypto';
import { decodeManifest, encodeManifest, type Manifest } from '../../src/checkpoint/manifest';
import {
  decodeHeader,
  encodeHeader,
  headerLength,
  PREFIX_BYTES,
  type TensorShape,
} from '../../src/checkpoint/safetensors';
import type { Entry, Target } from './fuzz';
import { mutateBytes } from './mutate-bytes';
import { mutateJson } from './mutate-json';
import { isCount } from './payload-checker';
import type { Random } from './random';
import { demand, refusalOf } from './refusal';

const PATH = 'f';

/** Errors quote names and types that the input has made up. */
function outcomeOf(decode: () => string): string {
  try {
    return decode();
  } catch (error) {
    return refusalOf(error, 'ERR_CHECKPOINT_DAMAGED')
      .replace(/tensor '[^]*?' (?=begins|is|has)/, "tensor '…' ")
      .replace(/version is [^]*, and/, 'version is …, and');
  }
}

const TENSORS: TensorShape[][] = [
  [],
  [{ name: 'momentum/w', type: 'F32', shape: [2, 3] }],
  [
    { name: 'iter', type: 'I32', shape: [] },
    { name: 'ünïcode/"\\', type: 'F32', shape: [0, 7] },
    { name: '__proto__', type: 'BOOL', shape: [5] },
  ],
];

/** The bytes of a whole file: every byte of the data belongs to one tensor. */
export const safetensorsTarget: Target = {
  name: 'safetensors',
  seeds: () =>
    TENSORS.map(tensors => {
      const header = encodeHeader(tensors, new Map([['gradring', '{"step":1}']]));
      return { bytes: Buffer.concat([header, Buffer.alloc(decodedEnd(header))]) };
    }),
  mutate: mutateFile,
  run: bytes => ({
    outcome: outcomeOf(() => {
      const length = headerLength(bytes.subarray(0, PREFIX_BYTES), bytes.length, PATH);
      demand(isCount(length, bytes.length - PREFIX_BYTES), 'The header is longer than the file.');
      const data = bytes.length - PREFIX_BYTES - length;
      const { tensors, metadata } = decodeHeader(bytes.subarray(PREFIX_BYTES, PREFIX_BYTES + length), data, PATH);
      let end = 0;
      for (const { type, shape, start, byteLength } of tensors) {
        demand(start === end, 'There is a gap or an overlap.');
        demand(
          shape.every(size => isCount(size, Number.MAX_SAFE_INTEGER)),
          'A size is none.',
        );
        const elementCount = shape.reduce((product, size) => product * size, 1);
        demand(byteLength === elementCount * (type === 'BOOL' ? 1 : 4), 'The shape is not that of the data.');
        end += byteLength;
      }
      demand(end === data, 'There is data of no tensor.');
      for (const value of metadata.values()) demand(typeof value === 'string', 'Metadata are no text.');
      return `accepted: ${Math.min(3, tensors.length)} tensors`;
    }),
  }),
};

/** How many bytes of data a header of ours tells of. */
function decodedEnd(header: Uint8Array): number {
  const entries = jsonIn(header.subarray(PREFIX_BYTES)) as Record<string, { data_offsets?: [number, number] }>;
  return Math.max(0, ...Object.values(entries).map(({ data_offsets: offsets }) => offsets?.[1] ?? 0));
}

/** A damaged header with its right length and the old data, or damaged bytes. */
function mutateFile(random: Random, entry: Entry, other: Entry): Entry {
  if (random.below(4) === 0) return { bytes: mutateBytes(random, entry.bytes, other.bytes) };
  const { bytes } = random.of(safetensorsTarget.seeds());
  const end = PREFIX_BYTES + headerLength(bytes, bytes.length, PATH);
  const header = jsonIn(bytes.subarray(PREFIX_BYTES, end));
  const text = Buffer.from(JSON.stringify(mutateJson(random, header)));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeBigUInt64LE(BigInt(text.length));
  return { bytes: Buffer.concat([prefix, text, bytes.subarray(end)]) };
}

function jsonIn(bytes: Uint8Array): object {
  return JSON.parse(Buffer.from(bytes).toString()) as object;
}

const SUMS = [0, 1, 2].map(i => ({ bytes: 1000 * i, crc32: 0xfffffff0 + i }));
const MANIFESTS: Manifest[] = [1, 2].map(worldSize => {
  return { number: 3, step: 500, worldSize, weights: SUMS[0], ranks: SUMS.slice(0, worldSize) };
});

/** The bytes of a manifest. */
export const manifestTarget: Target = {
  name: 'manifest',
  seeds: () => MANIFESTS.map(manifest => ({ bytes: encodeManifest(manifest) })),
  mutate: mutateManifest,
  run: bytes => ({
    outcome: outcomeOf(() => {
      const { number, step, worldSize, weights, ranks } = decodeManifest(bytes, PATH);
      demand(ranks.length === worldSize && worldSize * 10 < bytes.length, 'There are more ranks than files.');
      for (const count of [number, step, ...[weights, ...ranks].flatMap(({ bytes: size, crc32 }) => [size, crc32])]) {
        demand(isCount(count, Number.MAX_SAFE_INTEGER), 'A count is none.');
      }
      return `accepted: ${worldSize === 1 ? 'one rank' : 'ranks'}`;
    }),
  }),
};

/** A damaged manifest with the checksum of what it became, or damaged bytes. */
function mutateManifest(random: Random, entry: Entry, other: Entry): Entry {
  if (random.below(4) === 0) return { bytes: mutateBytes(random, entry.bytes, other.bytes) };
  const content = jsonIn(random.of(manifestTarget.seeds()).bytes) as { sha256?: string };
  delete content.sha256;
  const mutant = mutateJson(random, content);
  const sha256 = createHash('sha256').update(JSON.stringify(mutant)).digest('hex');
  return { bytes: Buffer.from(JSON.stringify({ ...mutant, sha256 })) };
}

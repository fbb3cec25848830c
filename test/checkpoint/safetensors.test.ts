import fc from 'fast-check';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { readTensorFile, type TensorSource, writeTensorFile } from '../../src/checkpoint/checkpoint-file';
import type { FileSum } from '../../src/checkpoint/durable-file';
import { decodeHeader, encodeHeader, headerLength, PREFIX_BYTES } from '../../src/checkpoint/safetensors';
import type { GradringError } from '../../src/errors';
import { floats } from './support';

const source = (name: string, type: TensorSource['type'], shape: number[], bytes: Uint8Array): TensorSource => ({
  name,
  type,
  shape,
  bytes: () => bytes,
});

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-safetensors-'));
  file = path.join(folder, 'f');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The header's JSON as a decoder gets it. */
const decode = (json: string | object, dataBytes = 8) =>
  decodeHeader(new TextEncoder().encode(typeof json === 'string' ? json : JSON.stringify(json)), dataBytes, 'f');
const tensor = (shape: unknown, offsets: unknown, dtype: unknown = 'F32') => ({ dtype, shape, data_offsets: offsets });

describe('a file', () => {
  test('has the bytes that the format asks for', async () => {
    const tensors = [
      source('flag', 'BOOL', [3], Uint8Array.of(1, 0, 1)),
      source('w', 'F32', [1, 2], new Uint8Array(Float32Array.of(1, -2).buffer)),
      source('i', 'I32', [], new Uint8Array(Int32Array.of(7).buffer)),
    ];
    const sum = await writeTensorFile(file, 0, tensors, new Map([['k', 'v']]));
    const bytes = readFileSync(file);
    const length = Number(bytes.readBigUInt64LE(0));
    expect((8 + length) % 8).toBe(0);
    expect(JSON.parse(bytes.subarray(8, 8 + length).toString())).toEqual({
      __metadata__: { k: 'v' },
      w: { dtype: 'F32', shape: [1, 2], data_offsets: [0, 8] },
      i: { dtype: 'I32', shape: [], data_offsets: [8, 12] },
      flag: { dtype: 'BOOL', shape: [3], data_offsets: [12, 15] }, // last, so that the others are aligned
    });
    expect(bytes.subarray(8 + length).toString('hex')).toBe('0000803f000000c007000000010001');
    expect(sum).toEqual({ bytes: bytes.length, crc32: crc32(bytes) });
  });

  test('gives back what was written: any names, shapes, sizes, and memory shared with threads', async () => {
    const shared = new Float32Array(new SharedArrayBuffer(20_000_000));
    for (let i = 0; i < shared.length; i++) shared[i] = i; // several chunks
    const name = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('__proto__', '1', '', '\ud800', '../x', '"'),
    );
    const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 });
    const entries = fc.uniqueArray(fc.tuple(name, fc.constantFrom('F32', 'I32', 'BOOL'), shapes), {
      selector: ([each]) => each,
      maxLength: 6,
    });
    const roundTrip = async (tensors: TensorSource[], metadata: Map<string, string>) => {
      const sum = await writeTensorFile(file, 0, tensors, metadata);
      const read = await readTensorFile(file, sum);
      expect(read.metadata).toEqual(metadata);
      expect(read.tensors.size).toBe(tensors.length);
      for (const each of tensors) {
        const { bytes, ...rest } = read.tensors.get(each.name)!;
        expect(rest).toEqual({ name: each.name, type: each.type, shape: each.shape });
        expect(Buffer.compare(bytes, Buffer.from(await each.bytes()))).toBe(0);
      }
    };
    await roundTrip([source('shared', 'F32', [5, 1_000_000], new Uint8Array(shared.buffer))], new Map());
    await fc.assert(
      fc.asyncProperty(entries, fc.string(), fc.string(), async (list, key, value) => {
        const tensors = list.map(([each, type, shape], i) => {
          const bytes = shape.reduce((product, size) => product * size, type === 'BOOL' ? 1 : 4);
          return source(each, type as 'F32', shape, new Uint8Array(bytes).fill(i + 1));
        });
        await roundTrip(tensors, new Map([[key, value]]));
      }),
      { numRuns: 100 },
    );
  });

  test.each(['__metadata__', 'twice'])('cannot hold the name %s', async name => {
    const tensors = [floats('twice', [1]), floats(name, [2])];
    const writing = writeTensorFile(file, 0, tensors, new Map());
    await expect(writing).rejects.toMatchObject({ message: expect.stringMatching(/two tensors with the name/) });
  });
});

describe('a damaged file', () => {
  test('is refused at every length, and with every bit flipped', async () => {
    const sum = await writeTensorFile(file, 0, [floats('w', [1, 2, 3])], new Map([['k', 'v']]));
    const bytes = readFileSync(file);
    // A thousand calls of `expect` take seconds.
    const outcomes = new Set<string>();
    const read = async (expected: FileSum) => {
      const outcome = await readTensorFile(file, expected).then(
        () => 'it was read',
        ({ code, message }: GradringError) => (message.includes(file) ? code : message),
      );
      outcomes.add(outcome);
    };
    for (let length = 0; length < bytes.length; length++) {
      writeFileSync(file, bytes.subarray(0, length));
      await read(sum);
      // Also by its own look, if the manifest has the same wrong size and sum.
      const part = bytes.subarray(0, length);
      await read({ bytes: length, crc32: crc32(part) });
    }
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      writeFileSync(file, flipped);
      await read(sum);
    }
    expect([...outcomes]).toEqual(['ERR_CHECKPOINT_DAMAGED']);
    writeFileSync(file, bytes);
    expect((await readTensorFile(file, sum)).metadata.get('k')).toBe('v');
  });

  test.each([
    ['a file that is missing', () => undefined, /is missing/],
    ['a folder', (at: string) => mkdirSync(at), /is not a file/],
    ['a named pipe', (at: string) => void execFileSync('mkfifo', [at]), /is not a file/],
  ])('%s is refused at once', async (_, make, words) => {
    make(file);
    await expect(readTensorFile(file, { bytes: 0, crc32: 0 })).rejects.toMatchObject({
      code: 'ERR_CHECKPOINT_DAMAGED',
      message: expect.stringMatching(words),
    });
  });

  test.each([8n, 100_000_001n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n])('of a header of %d bytes', length => {
    const prefix = new Uint8Array(PREFIX_BYTES);
    new DataView(prefix.buffer).setBigUint64(0, length, true);
    expect(() => headerLength(prefix, 15, 'f')).toThrow(/header would be \d+ bytes long, of 15/);
  });

  test.each([
    ['no JSON', '{', /not JSON/],
    ['spaces before', ' {}', /does not begin with/],
    ['an array', '[]', /does not begin with/],
    ['JSON of great depth', `{"a":${'['.repeat(100_000)}`, /not JSON/],
    ['a hole before', { w: tensor([1], [4, 8]) }, /begins at byte 4, not at 0/],
    ['a hole after', { w: tensor([1], [0, 4]) }, /have 4 bytes, but 8 follow/],
    ['an overlap', { v: tensor([2], [0, 8]), w: tensor([1], [4, 8]) }, /begins at byte 4, not at 8/],
    ['the same twice', { v: tensor([2], [0, 8]), w: tensor([2], [0, 8]) }, /begins at byte 0, not at 8/],
    ['data past the end', { w: tensor([4], [0, 16]) }, /have 16 bytes, but 8 follow/],
    [
      'one name twice',
      '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
      /begins at byte 4/,
    ],
    ['offsets backwards', { w: tensor([1], [8, 4]) }, /but -4 by its offsets/],
    ['offsets of halves', { w: tensor([1], [0.5, 4.5]) }, /no offsets/],
    ['huge offsets', { w: tensor([1], [2 ** 53, 2 ** 53 + 4]) }, /no offsets/],
    ['three offsets', { w: tensor([1], [0, 4, 8]) }, /no offsets/],
    ['offsets in words', { w: tensor([1], ['0', '4']) }, /no offsets/],
    ['another size', { w: tensor([3], [0, 8]) }, /has 12 bytes by its shape, but 8/],
    ['a shape of null, as NaN is written', { w: tensor([null], [0, 8]) }, /no shape/],
    ['a negative shape', { w: tensor([-2, -1], [0, 8]) }, /no shape/],
    ['a shape of halves', { w: tensor([0.5, 4], [0, 8]) }, /no shape/],
    ['a shape that overflows', { w: tensor(Array(40).fill(2 ** 52), [0, 8]) }, /has Infinity bytes by its shape/],
    ['a shape that wraps to little', { w: tensor([2 ** 52, 2 ** 52, 0.5], [0, 8]) }, /no shape/],
    ['a shape that is no list', { w: tensor({ length: 1 }, [0, 8]) }, /no shape/],
    ['an unknown type', { w: tensor([1], [0, 8], 'F64') }, /the type of .* is none of F32, I32, BOOL/],
    ['a type from the prototype', { w: tensor([1], [0, 8], 'constructor') }, /the type of .* is none/],
    ['a tensor that is none', { w: null }, /is not an object/],
    ['metadata that are none', { __metadata__: { a: 1 } }, /metadata are not texts/],
  ])('with %s', (_, json, words) => {
    expect(() => decode(json)).toThrow(expect.objectContaining({ code: 'ERR_CHECKPOINT_DAMAGED' }));
    expect(() => decode(json)).toThrow(words);
  });

  test('with bytes that are no UTF-8', () => {
    const bytes = encodeHeader([floats('a', [1])], new Map()).slice(PREFIX_BYTES);
    bytes[bytes.indexOf(0x61)] = 0xff;
    expect(() => decodeHeader(bytes, 4, 'f')).toThrow(/not JSON in UTF-8/);
  });
});

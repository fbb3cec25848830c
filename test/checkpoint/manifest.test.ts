import { createHash } from 'node:crypto';
import { decodeManifest, encodeManifest, type Manifest } from '../../src/checkpoint/manifest';

const MANIFEST: Manifest = {
  number: 12,
  step: 500,
  worldSize: 2,
  weights: { bytes: 1000, crc32: 1 },
  ranks: [
    { bytes: 2000, crc32: 2 },
    { bytes: 3000, crc32: 0xffffffff },
  ],
};
const bytesOf = (text: string) => new TextEncoder().encode(text);
const refusal = expect.objectContaining({
  code: 'ERR_CHECKPOINT_DAMAGED',
  message: expect.stringContaining('/d/m.json'),
});

test('is read as it was written, and says what it is', () => {
  const bytes = encodeManifest(MANIFEST);
  expect(decodeManifest(bytes, '/d/m.json')).toEqual(MANIFEST);
  expect(JSON.parse(new TextDecoder().decode(bytes))).toMatchObject({
    format: 'gradring checkpoint',
    version: 1,
    step: 500,
    worldSize: 2,
    files: [
      { name: 'weights.safetensors', bytes: 1000 },
      { name: 'rank-0.safetensors' },
      { name: 'rank-1.safetensors' },
    ],
  });
});

test('every cut and every flipped bit is refused, but where JSON does not care', () => {
  const bytes = encodeManifest(MANIFEST);
  for (let length = 0; length < bytes.length - 1; length++) {
    expect(() => decodeManifest(bytes.subarray(0, length), '/d/m.json')).toThrow(refusal);
  }
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const flipped = bytes.slice();
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    let read: Manifest;
    try {
      read = decodeManifest(flipped, '/d/m.json');
    } catch (error) {
      expect(error).toEqual(refusal);
      continue;
    }
    expect(read).toEqual(MANIFEST); // one kind of white space became another
  }
});

/** A manifest with a correct checksum, as an attacker would write it. */
function forged(change: object): Uint8Array {
  const content = JSON.parse(new TextDecoder().decode(encodeManifest(MANIFEST))) as { sha256?: string };
  delete content.sha256;
  const text = JSON.stringify({ ...content, ...change });
  const sha256 = createHash('sha256').update(text).digest('hex');
  return bytesOf(JSON.stringify({ ...(JSON.parse(text) as object), sha256 }));
}
const file = (name: unknown, bytes: unknown = 1, crc32: unknown = 1) => ({ name, bytes, crc32 });
const [weights, first, second] = [file('weights.safetensors'), file('rank-0.safetensors'), file('rank-1.safetensors')];

test.each<[string, object, RegExp]>([
  ['another format', { format: 'x' }, /is not the manifest/],
  ['a later version', { version: 2 }, /format version 2, but this gradring reads version 1/],
  ['a path that leads out', { files: [weights, first, file('../../etc/passwd')] }, /file 2 is not called rank-1/],
  ['an absolute path', { files: [file('/etc/passwd'), first, second] }, /file 0 is not called weights/],
  ['another order', { files: [weights, second, first] }, /file 1 is not called rank-0/],
  ['too few files', { files: [weights, first] }, /does not list/],
  ['no files', { files: { length: 3 } }, /does not list/],
  ['more ranks than files', { worldSize: 2 ** 31 }, /does not list/],
  ['no ranks', { worldSize: 0, files: [weights] }, /lacks number, step or world size/],
  ['a step of halves', { step: 0.5 }, /lacks number/],
  ['a negative step', { step: -1 }, /lacks number/],
  ['a number of NaN', { number: NaN }, /lacks number/],
  ['a negative size', { files: [weights, first, file('rank-1.safetensors', -1)] }, /lacks its size/],
  ['a checksum in words', { files: [weights, first, file('rank-1.safetensors', 1, 'x')] }, /lacks its size/],
  ['a file that is none', { files: [weights, first, null] }, /file 2 is not called/],
])('with %s it is refused', (_, change, words) => {
  expect(decodeManifest(forged({}), '/d/m.json')).toEqual(MANIFEST);
  expect(() => decodeManifest(forged(change), '/d/m.json')).toThrow(refusal);
  expect(() => decodeManifest(forged(change), '/d/m.json')).toThrow(words);
});

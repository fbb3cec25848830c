import { copyBytes, copyOf, releaseMemory } from '../../src/memory/buffers';

const numbered = (bytes: Uint8Array) => bytes.map((_, i) => (i * 13 + 5) % 256);

test('bytes are copied between shared memory and other, at any alignment, and nothing beside them', () => {
  const { buffer } = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  for (const length of [0, 1, 2, 3, 7, 8, 63, 1_000, 4_097]) {
    for (const at of [0, 1, 3, 8]) {
      const shared = new Uint8Array(buffer).fill(0);
      const source = numbered(new Uint8Array(length));
      copyBytes(shared.subarray(at), source);
      expect(Buffer.from(shared.subarray(at, at + length)).equals(Buffer.from(source))).toBe(true);
      expect(shared[at + length]).toBe(0);
      expect(Buffer.from(copyOf(shared.subarray(at, at + length))).equals(Buffer.from(source))).toBe(true);
    }
  }
});

test('a copy is of its own', () => {
  const bytes = Uint8Array.of(1, 2, 3);
  const copy = copyOf(bytes);
  bytes.fill(9);
  expect([...copy]).toEqual([1, 2, 3]);
});

test('released memory is gone at once; of small buffers, which share theirs, nothing is', () => {
  const large = Buffer.from(new ArrayBuffer(100_000));
  releaseMemory(large);
  expect(large).toHaveLength(0);
  const [small, neighbour] = [Buffer.from('first'), Buffer.from('second')];
  releaseMemory(small);
  expect(small.toString()).toBe('first');
  expect(neighbour.toString()).toBe('second');
  const part = Buffer.from(new ArrayBuffer(100_000), 0, 50_000);
  releaseMemory(part);
  expect(part).toHaveLength(50_000);
});

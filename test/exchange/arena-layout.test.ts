import path from 'node:path';
import * as fc from 'fast-check';
import { type ArenaLayout, layArenas, MAX_ARENA_BYTES, type VariableShape } from '../../src/exchange/arena-layout';
import { customCompression } from '../../src/compression/compressors/custom-compression';
import { type Compression, dgc, noCompression } from '../../src/compression/dgc-options';
import { sentCount } from '../../src/compression/sparsity-schedule';
import { TensorCompressor } from '../../src/compression/tensor-compressor';

const SCRATCH_BYTES = 256 * 1024;
const ARENA_BYTES = SCRATCH_BYTES + 128 * 1024;

const elementsOf = ({ shape }: VariableShape) => shape.reduce((product, size) => product * size, 1);

/** Every piece of an arena, with its length. */
function piecesOf({ tensors, indices, values, workspace, bytes }: ArenaLayout, density: number) {
  const sparse = tensors.filter(({ isWhole }) => !isWhole).map(({ elementCount }) => elementCount);
  const entryBytes = 4 * sparse.reduce((sum, count) => sum + sentCount(count, density), 0);
  const pieces = tensors.flatMap(({ elementCount, gradient, momentum, residual }) =>
    [gradient, momentum, residual].map(start => ({ start, length: elementCount * 4 })),
  );
  const workspaceBytes = TensorCompressor.workspaceBytes(Math.max(0, ...sparse));
  return [
    ...pieces,
    { start: indices, length: entryBytes },
    { start: values, length: entryBytes },
    { start: workspace, length: Math.max(SCRATCH_BYTES, workspaceBytes) },
    { start: bytes, length: 0 },
  ];
}

const size = fc.integer({ min: 1, max: 60 });
const shape = fc.oneof(fc.tuple(fc.nat(4000)), fc.tuple(size, size)) as fc.Arbitrary<number[]>;
const variable = shape.map((shape): VariableShape => ({ name: shape.join(), shape }));
const compression = fc.constantFrom<Compression>(
  dgc(),
  dgc({ warmUpEpochs: 0, sparsity: 0.75, denseBelow: 0 }),
  noCompression(),
);

test('arenas hold all variables in their order, within the limit, aligned, nothing over another', () => {
  fc.assert(
    fc.property(fc.array(variable, { maxLength: 30 }), compression, (variables, compression) => {
      const arenas = layArenas(variables, compression, ARENA_BYTES);
      expect(arenas.length).toBeGreaterThan(0);
      expect(arenas.flatMap(({ tensors }) => tensors.map(t => t.elementCount))).toEqual(variables.map(elementsOf));
      for (const arena of arenas) {
        expect(arena.bytes).toBeLessThanOrEqual(ARENA_BYTES);
        const pieces = piecesOf(arena, compression.kind === 'dgc' ? 0.25 : 0).filter(
          ({ length, start }) => length > 0 || start === arena.bytes,
        );
        pieces.sort((a, b) => a.start - b.start);
        pieces.forEach(({ start, length }, i) => {
          if (start !== arena.bytes) expect(start % 16).toBe(0);
          expect(start + length).toBeLessThanOrEqual(pieces[i + 1]?.start ?? arena.bytes);
        });
      }
    }),
    { numRuns: 200 },
  );
});

test('a new arena begins only where the next variable does not fit any more', () => {
  const variables = Array.from({ length: 40 }, (_, i) => ({ name: `v${i}`, shape: [10, 50 + i] }));
  const arenas = layArenas(variables, dgc(), ARENA_BYTES);
  expect(arenas.length).toBeGreaterThan(1);
  let first = 0;
  for (const { tensors } of arenas.slice(0, -1)) {
    const andNext = variables.slice(first, first + tensors.length + 1);
    expect(layArenas(andNext, dgc(), ARENA_BYTES)).toHaveLength(2);
    first += tensors.length;
  }
});

test('what 300 million and a billion parameters take', () => {
  const model = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `v${i}`, shape: [5000, 5000] }));
  const gigabytes = (count: number, compression: Compression) =>
    layArenas(model(count), compression, MAX_ARENA_BYTES).map(({ bytes }) => Math.round(bytes / 1e7) / 100);
  expect(gigabytes(12, dgc())).toEqual([4.22]);
  expect(gigabytes(12, dgc({ sparsity: 0.999, warmUpEpochs: 0 }))).toEqual([3.62]);
  expect(gigabytes(40, dgc())).toEqual([4.22, 4.22, 4.22, 1.42]);
  expect(gigabytes(40, dgc({ sparsity: 0.999, warmUpEpochs: 0 }))).toEqual([4.22, 4.22, 3.62]);
  expect(gigabytes(40, noCompression())).toEqual([4.2, 4.2, 3.6]);
});

test('a variable that no arena can hold is an error that names it, its size and the limit', () => {
  const variables = [
    { name: 'small', shape: [10, 10] },
    { name: 'embedding', shape: [100_000, 4_000] },
  ];
  expect(() => layArenas(variables, dgc(), MAX_ARENA_BYTES)).toThrow(
    expect.objectContaining({
      code: 'ERR_OUT_OF_MEMORY',
      details: { variable: 'embedding' },
      message: expect.stringMatching(/'embedding' of 400000000 elements .* 4294967296 bytes/) as string,
    }),
  );
});

test('what all ranks keep beside a tensor is kept only for those that are not small', () => {
  const compression = customCompression(path.join(__dirname, 'fixtures/sharing-compressor.js'));
  const variables = [
    { name: 'bias', shape: [64] },
    { name: 'matrix', shape: [40, 50] },
    { name: 'small', shape: [3, 4] },
  ];
  const [arena] = layArenas(variables, compression, MAX_ARENA_BYTES);
  expect(arena!.tensors.map(({ sharedLength }) => sharedLength)).toEqual([0, 2000, 0]);
});

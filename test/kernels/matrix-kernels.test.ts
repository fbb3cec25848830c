import type { Kernels } from '../../src/kernels/kernels';
import type { Matrix } from '../../src/kernels/matrix-kernels';
import { random } from '../support/random';
import { IMPLEMENTATIONS, Pieces, sharedMemory } from './shared-memory';

/** Rows, columns and vectors: of one block, of some with a rest, of blocks of rows. */
const SIZES = [
  [4, 4, 1],
  [4, 8, 2],
  [8, 12, 3],
  [68, 20, 5],
  [132, 36, 8],
  [200, 4, 9],
];

const numbers = (length: number, seed: number) => {
  const next = random(seed);
  return Float32Array.from({ length }, () => next() - 0.5);
};

interface Room {
  readonly kernels: Kernels;
  readonly pieces: Pieces;
  readonly matrix: Matrix;
  /** Vectors as long as a column. */
  readonly left: number;
  /** Vectors as long as a row. */
  readonly right: number;
}

/** What both implementations leave in the memory of a matrix, of vectors, and of results, with the gaps behind them. */
function onBoth([rows, columns, count]: number[], run: (room: Room, into: number) => void): Float32Array[] {
  return IMPLEMENTATIONS.map(([, make]) => {
    const memory = sharedMemory();
    const pieces = new Pieces(memory);
    const data = pieces.float32(numbers(rows! * columns!, 1));
    const left = pieces.float32(numbers(rows! * count!, 2));
    const right = pieces.float32(numbers(columns! * count!, 3));
    const into = pieces.bytes(4 * Math.max(rows!, columns!) * count!);
    const norms = pieces.bytes(4 * count!);
    run({ kernels: make(memory), pieces, matrix: { data, rows: rows!, columns: columns! }, left, right }, into);
    return new Float32Array(memory.buffer.slice(data, norms + 16 * Math.ceil(count! / 4) + 16));
  });
}

const expectClose = ([one, other]: Float32Array[]) => {
  expect(one).toHaveLength(other!.length);
  const largest = one!.reduce((most, value, i) => Math.max(most, Math.abs(value - other![i]!)), 0);
  expect(largest).toBeLessThanOrEqual(2e-5);
};

describe.each(SIZES)('a matrix of %i × %i, and %i vectors', (...size) => {
  const [rows, , count] = size as [number, number, number];

  test('its product with them, and that of its transpose', () => {
    expectClose(onBoth(size, ({ kernels, matrix, right }, into) => kernels.rowProducts(matrix, right, count, into)));
    expectClose(onBoth(size, ({ kernels, matrix, left }, into) => kernels.columnProducts(matrix, left, count, into)));
  });

  test('the transpose of one of any number of rows', () => {
    expectClose(
      onBoth(size, ({ kernels, matrix, left }, into) =>
        kernels.columnProducts({ ...matrix, rows: rows - 1 }, left, count, into),
      ),
    );
  });

  test('added products, and sums of rows, have the same bits', () => {
    for (const scale of [1, 3e-7]) {
      const [one, other] = onBoth(size, ({ kernels, pieces, matrix, left, right }) => {
        for (const vectors of [left, right]) {
          const length = count * (vectors === left ? matrix.rows : matrix.columns);
          const next = random(length);
          new Int16Array(pieces.memory.buffer, vectors, 2 * length).forEach((_, i, all) => {
            all[i] = Math.floor(Math.min(2 ** 15, 2 ** 16 / Math.sqrt(8 * count)) * (next() - 0.5));
          });
        }
        kernels.addProducts(matrix, left, right, count, scale);
      });
      expect(one).toEqual(other);
    }
    const [sums, expected] = onBoth(size, ({ kernels, matrix, left }, into) =>
      kernels.sumRows(matrix, left, count, into),
    );
    expect(sums).toEqual(expected);
  });

  test('an orthonormal basis: one vector that is a sum of others, and one of zeros, become zero', () => {
    const length = rows;
    const run = ({ kernels, pieces, left }: Room, into: number) => {
      const vectors = new Float32Array(pieces.memory.buffer, left, length * count);
      if (count > 2) for (let i = 0; i < length; i++) vectors[2 * length + i] = 3 * vectors[i]! - vectors[length + i]!;
      if (count > 4) vectors.fill(0, 4 * length, 5 * length);
      kernels.orthonormalize(left, length, count, into);
      const norms = [...new Float32Array(pieces.memory.buffer, into, count)];
      if (length > 4) expect(norms.map(norm => norm > 0)).toEqual(norms.map((_, j) => j !== 2 && j !== 4));
      for (let j = 0; j < count; j++) {
        for (let l = 0; l <= j; l++) {
          const dot = vectors.subarray(j * length, (j + 1) * length).reduce((sum, value, i) => sum + value * vectors[l * length + i]!, 0); // prettier-ignore
          expect(dot).toBeCloseTo(l === j && norms[j]! > 0 ? 1 : 0, 5);
        }
      }
    };
    if (length >= count) expectClose(onBoth(size, run));
  });
});

test('values are rounded to multiples of a step, to even ones in between, and not beyond the limit', () => {
  const values = [...numbers(33, 4), 0.25, 0.75, 1.25, -0.25, -0.75, 100, -100];
  const results = IMPLEMENTATIONS.map(([, make]) => {
    const memory = sharedMemory();
    const at = new Pieces(memory).float32(Float32Array.from(values));
    const largest = make(memory).roundToSteps(at, values.length, 0.5, 20);
    return [largest, ...new Float32Array(memory.buffer, at, values.length + 4)].map(value => value + 0); // no −0
  });
  expect(results[0]).toEqual(results[1]);
  expect(results[0]![0]).toBe(20);
  expect(results[0]!.slice(34, 41)).toEqual([0, 2, 2, 0, -2, 20, -20]);
});

test.each([1, 4, 1022, 1024])('%d symbols become int16, every second one', count => {
  const results = IMPLEMENTATIONS.map(([, make]) => {
    const memory = sharedMemory();
    const pieces = new Pieces(memory);
    const next = random(count);
    const [symbols, into] = [pieces.bytes(4 * 1024), pieces.bytes(4 * 1024)];
    const kernels = make(memory);
    const largest = [false, true].map(isSecond => {
      new Uint32Array(memory.buffer, symbols, 1024).forEach((_, i, all) => (all[i] = Math.floor(1000 * next())));
      return kernels.unfoldSymbols(symbols, count, isSecond ? 63 : 1, into, isSecond);
    });
    return [...largest, ...new Int16Array(memory.buffer, into, 2 * 1024)];
  });
  expect(results[0]).toEqual(results[1]);
  expect(results[0]!.some(value => value < 0)).toBe(true);
});

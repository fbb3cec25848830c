import type { Compressor } from './compressor';
import { randomOf } from './random-of';

/** The options of {@link powerSgdCompressor}, checked. */
export interface PowerSgdNumbers {
  readonly rank: number;
  readonly seed: number;
}

/** A column is replaced by another one if less than this is left of it without the columns before it. */
const SMALLEST_REST = 1e-6;

/**
 * PowerSGD (Vogels et al., NeurIPS 2019, Algorithms 1 and 2): a tensor is a matrix M of n × m, and its mean over the
 * ranks is approximated by P̂Qᵀ of rank r. One step of subspace iteration from the Q of the step before ("warm start"):
 * P is the mean of MQ, P̂ its orthonormal basis, and Q the mean of MᵀP̂. Only P and Q travel, by the dense ring, whose
 * cost does not grow with the ranks.
 *
 * What M lacks of its own P̂(MᵀP̂)ᵀ is added to the next gradient. Averaged over the ranks, that is what their mean
 * lacks of P̂Qᵀ. If each rank kept what it lacks of P̂Qᵀ, the mean would be the same, but the ranks would also keep how
 * they differ from each other, more with every step. Where a rank is lost, the rest would no longer cancel.
 *
 * m is the last dimension of the tensor. All sums are in double precision, in one order, so all ranks have the same
 * bits, on any machine.
 */
export function powerSgdCompressor({ rank: wanted, seed }: PowerSgdNumbers): Compressor {
  const sizes = (shape: readonly number[]) => {
    const m = shape.at(-1)!;
    const n = shape.slice(0, -1).reduce((product, size) => product * size, 1);
    return { n, m, r: Math.min(wanted, n, m) };
  };
  return {
    errorFeedback: true,
    sharedLength: shape => sizes(shape).m * sizes(shape).r,
    async average({ shape, values, mean, sent, shared }, ring) {
      const { n, m, r } = sizes(shape);
      const start = scaled(shared) ?? firstBasis(m * r, seed);
      const p = await ring.mean(product(values, start, n, m, r));
      orthonormalize(p, n, r, seed);
      const own = transposedProduct(values, p, n, m, r);
      multiply(sent, p, own, n, m, r);
      const q = await ring.mean(own);
      shared.set(q);
      multiply(mean, p, q, n, m, r);
    },
  };
}

/**
 * The basis of the step before, with 1 as its largest magnitude: it has the scale of the gradient. Undefined for zeros.
 */
function scaled(basis: Float32Array): Float32Array | undefined {
  const largest = basis.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return largest === 0 ? undefined : basis.map(value => value / largest);
}

/** Normal numbers, nearly: sums of uniform ones. They need no logarithm, whose last bits differ between engines. */
function firstBasis(length: number, seed: number): Float32Array {
  const random = randomOf(seed, length);
  return Float32Array.from({ length }, () => {
    let sum = -6;
    for (let i = 0; i < 12; i++) sum += random();
    return sum;
  });
}

/** MQ: n × r. */
function product(matrix: Float32Array, q: Float32Array, n: number, m: number, r: number): Float32Array {
  const result = new Float32Array(n * r);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < r; k++) {
      let sum = 0;
      for (let j = 0; j < m; j++) sum += matrix[i * m + j]! * q[j * r + k]!;
      result[i * r + k] = sum;
    }
  }
  return result;
}

/** PQᵀ: n × m, into `result`. */
function multiply(result: Float32Array, p: Float32Array, q: Float32Array, n: number, m: number, r: number): void {
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      let sum = 0;
      for (let k = 0; k < r; k++) sum += p[i * r + k]! * q[j * r + k]!;
      result[i * m + j] = sum;
    }
  }
}

/** MᵀP: m × r. */
function transposedProduct(matrix: Float32Array, p: Float32Array, n: number, m: number, r: number): Float32Array {
  const sums = new Float64Array(m * r);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      const value = matrix[i * m + j]!;
      for (let k = 0; k < r; k++) sums[j * r + k]! += value * p[i * r + k]!;
    }
  }
  return Float32Array.from(sums);
}

/** Modified Gram–Schmidt on the columns of an n × r matrix, in place. A column that vanishes becomes another one. */
function orthonormalize(p: Float32Array, n: number, r: number, seed: number): void {
  const columns = Array.from({ length: r }, (_, k) => Float64Array.from({ length: n }, (_, i) => p[i * r + k]!));
  columns.forEach((column, k) => {
    for (let attempt = 0; ; attempt++) {
      const before = norm(column);
      for (const other of columns.slice(0, k)) {
        const overlap = dot(column, other);
        for (let i = 0; i < n; i++) column[i]! -= overlap * other[i]!;
      }
      const after = norm(column);
      if (after > SMALLEST_REST * before) {
        for (let i = 0; i < n; i++) column[i]! /= after;
        return;
      }
      if (attempt === 8) return void column.fill(0);
      column.set(firstBasis(n, seed + 1 + k + r * attempt));
    }
  });
  columns.forEach((column, k) => column.forEach((value, i) => (p[i * r + k] = value)));
}

function dot(one: Float64Array, other: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += one[i]! * other[i]!;
  return sum;
}

function norm(column: Float64Array): number {
  return Math.sqrt(dot(column, column));
}

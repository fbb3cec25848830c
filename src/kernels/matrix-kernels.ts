import type { Pointer } from './pointer';

/** A matrix of float32, row by row. It starts at a multiple of 16 bytes. Rows and columns are multiples of four. */
export interface Matrix {
  readonly data: Pointer;
  readonly rows: number;
  readonly columns: number;
}

/**
 * Products of a matrix with a few vectors, a part of {@link Kernels}. Vectors of float32 follow each other without a
 * gap. All sums are in float32, in one order: all machines have the same bits, which the tests compare with double
 * precision only roughly.
 */
export interface MatrixKernels {
  /** `into[j][i] = Σ_k matrix[i][k] · vectors[j][k]`: `count` vectors of `columns` elements become some of `rows`. */
  rowProducts(matrix: Matrix, vectors: Pointer, count: number, into: Pointer): void;

  /**
   * `into[j][k] = Σ_i vectors[j][i] · matrix[i][k]`: `count` vectors of `rows` elements become some of `columns`. Here
   * the number of rows may be any.
   */
  columnProducts(matrix: Matrix, vectors: Pointer, count: number, into: Pointer): void;

  /**
   * `matrix[i][k] += scale · Σ_j left[j][i] · right[j][k]`. The sum is exact, then rounded to float32, as the product
   * and the new element are.
   *
   * @param left Of int16, two vectors at a time: their first elements, their second ones, and so on. Vectors have as
   *   many elements as a column of the matrix, those of `right` as many as a row.
   * @param pairs How many times two vectors. A sum of products must be less than 2³¹.
   */
  addProducts(matrix: Matrix, left: Pointer, right: Pointer, pairs: number, scale: number): void;

  /**
   * `into[i mod count][k] += ± matrix[i][k]`, from zero. The sign of row i is negative if bit i mod 8 of byte ⌊i ÷ 8⌋
   * of `signs` is 1.
   */
  sumRows(matrix: Matrix, signs: Pointer, count: number, into: Pointer): void;

  /**
   * Makes `count` vectors orthonormal, in place: the modified Gram–Schmidt method, done twice. `norms[j]` becomes the
   * length of what is left of vector j without those before it. A vector of which nothing is left becomes zero, and so
   * does its norm. Squares of the values must neither overflow nor vanish.
   */
  orthonormalize(vectors: Pointer, length: number, count: number, norms: Pointer): void;

  /**
   * Divides float32 values by a step, and rounds to whole numbers: to even ones, if two are as near. None becomes
   * larger than `limit`. Returns the largest magnitude. `count` is a multiple of four.
   */
  roundToSteps(values: Pointer, count: number, step: number, limit: number): number;

  /**
   * Turns the uint32 symbols 0, 1, 2, 3, 4, … into the numbers 0, −1, 1, −2, 2, …, and multiplies them by a factor. It
   * stores the lower 16 bits of each product in every second int16 of `into`. With `isSecond` it begins at the second
   * one, and leaves the others. Without, it begins at the first one, and sets the others to zero. If `count` is no
   * multiple of four, it stores zeros up to the next one. Returns the largest symbol.
   */
  unfoldSymbols(symbols: Pointer, count: number, factor: number, into: Pointer, isSecond: boolean): number;
}

/** What the WebAssembly module exports of them. */
export interface MatrixExports {
  rowProducts: (...numbers: number[]) => void;
  columnProducts: (...numbers: number[]) => void;
  addProducts: (...numbers: number[]) => void;
  sumRows: (...numbers: number[]) => void;
  orthonormalize: MatrixKernels['orthonormalize'];
  roundToSteps: MatrixKernels['roundToSteps'];
  unfoldSymbols: MatrixKernels['unfoldSymbols'];
}

/** The kernels of one instance of the module. */
export function matrixKernels(wasm: MatrixExports): MatrixKernels {
  return {
    rowProducts: ({ data, rows, columns }, vectors, count, into) =>
      wasm.rowProducts(data, rows, columns, vectors, count, into),
    columnProducts: ({ data, rows, columns }, vectors, count, into) =>
      wasm.columnProducts(data, rows, columns, vectors, count, into),
    addProducts: ({ data, rows, columns }, left, right, pairs, scale) =>
      wasm.addProducts(data, rows, columns, left, right, pairs, scale),
    sumRows: ({ data, rows, columns }, signs, count, into) => wasm.sumRows(data, rows, columns, signs, count, into),
    orthonormalize: wasm.orthonormalize,
    roundToSteps: wasm.roundToSteps,
    unfoldSymbols: (symbols, count, factor, into, isSecond) =>
      wasm.unfoldSymbols(symbols, count, factor, into, isSecond) >>> 0,
  };
}

import type { Pointer } from '../../kernels/kernels';
import type { Matrix } from '../../kernels/matrix-kernels';
import { malformed } from '../bit-stream';
import type { CodeScratch } from './code-scratch';
import { isInRange, readScale, type TensorCode, writeScale } from './tensor-code';
import { rootMeanSquare } from './whole-code';

/** A matrix, and how closely to send it. */
export interface FactorPlan {
  /** Its rows. */
  readonly a: number;
  /** Its columns. */
  readonly b: number;
  /** The most columns of each factor. */
  readonly rank: number;
  /** See {@link lowRankCodes}. */
  readonly step: number;
}

/** A column of the factors is not sent if its step would be larger: too little of the matrix lies in its direction. */
const LARGEST_STEP = 2.5;
const SMALLEST_STEP = 0.25;

const COUNT_BITS = 16;

/**
 * A matrix whose largest value is at most 2⁸, and at least 2⁻⁸, is taken as it is. Else fourth powers of values, summed
 * over the matrix, could overflow or vanish.
 */
const USUAL_EXPONENT = 8;

/** The largest magnitude of a whole number. Times {@link LARGEST_MULTIPLE} it is an int16. */
const LARGEST_NUMBER = 511;
const MULTIPLE_BITS = 6;
const LARGEST_MULTIPLE = 2 ** MULTIPLE_BITS - 1;
/** Sums of products of whole numbers are less. */
const SUM_LIMIT = 2 ** 31;

/** A pivot of less than this part of its column was a sum of those before, but for rounding. */
const SMALLEST_PIVOT = 1e-6;

/**
 * The code of {@link lowRankCodes}. The message: 16 bits with the number of columns. If there are any, a scale,
 * and for each a multiple mⱼ of 6 bits and the whole numbers of P̂ⱼ and Q̂ⱼ. The matrix is the scale times Σ mⱼP̂ⱼQ̂ⱼᵀ.
 * That sum is exact.
 */
export class FactorCode implements TensorCode {
  /** Padded with zeros to multiples of four. */
  private readonly matrix: Matrix;
  /** Vectors as long as a column of it. */
  private readonly left: Pointer;
  /** Vectors as long as a row of it. */
  private readonly right: Pointer;
  private readonly fitted: Pointer;
  /** Vectors with an element for each column of the factors. */
  private readonly square: Pointer;
  private readonly norms: Pointer;
  private readonly signs: Pointer;
  /** As the kernel that adds products takes them. */
  private readonly leftPairs: Pointer;
  private readonly rightPairs: Pointer;

  constructor(
    private readonly scratch: CodeScratch,
    private readonly plan: FactorPlan,
  ) {
    const { a, b, rank } = plan;
    const [rows, columns, padded] = [padded4(a), padded4(b), padded4(rank)];
    const pairs = Math.ceil(rank / 2);
    const [data, left, right, fitted, square, norms, signs, leftPairs, rightPairs] = scratch.places(
      ...([rows * columns, padded * rows, rank * columns, rank * columns, padded * padded, rank, rows / 32] as const),
      ...([pairs * rows, pairs * columns] as const),
    );
    this.matrix = { data, rows, columns };
    [this.left, this.right, this.fitted, this.square, this.norms, this.signs] = [left, right, fitted, square, norms, signs]; // prettier-ignore
    [this.leftPairs, this.rightPairs] = [leftPairs, rightPairs];
  }

  encode(values: Float32Array, random: () => number): Uint8Array {
    const { scratch } = this;
    const { writer } = scratch;
    const unit = this.load(values);
    const rounded = unit === 0 ? [] : this.roundLeft(this.findDirections(random));
    const { scale, columns } = this.fitRight(rounded, unit);
    writer.start();
    writer.write(columns.length, COUNT_BITS);
    if (columns.length > 0) writeScale(scale, writer);
    for (const { column, multiple } of columns) {
      writer.write(multiple, MULTIPLE_BITS);
      scratch.write(this.leftOf(column));
      scratch.write(this.rightOf(this.fitted, column));
    }
    return writer.finish().slice();
  }

  clear(): void {
    const { data, rows, columns } = this.matrix;
    this.scratch.kernels.clear(data, rows * columns);
  }

  add(message: Uint8Array): void {
    const { matrix, scratch, plan, leftPairs: left, rightPairs: right } = this;
    const reader = scratch.readerOf(message);
    const count = reader.read(COUNT_BITS);
    if (count > plan.rank) throw malformed(`holds ${count} columns of at most ${plan.rank}`);
    const scale = count === 0 ? 0 : readScale(reader);
    let sum = 0;
    for (let column = 0; column < count; column++) {
      const factor = reader.read(MULTIPLE_BITS);
      const [pair, isSecond] = [column >> 1, column % 2 === 1];
      const toLeft = { into: left + 4 * pair * matrix.rows, isSecond, factor, limit: LARGEST_NUMBER };
      const largestLeft = scratch.readHalves(reader, plan.a, toLeft);
      const toRight = { into: right + 4 * pair * matrix.columns, isSecond, factor: 1, limit: LARGEST_NUMBER };
      sum += factor * largestLeft * scratch.readHalves(reader, plan.b, toRight);
    }
    reader.finish();
    if (sum >= SUM_LIMIT || !isInRange(scale, Math.fround(sum))) throw malformed('holds a value out of range');
    scratch.kernels.addProducts(matrix, left, right, Math.ceil(count / 2), scale);
  }

  take(into: Float32Array, factor: number): void {
    const { matrix, plan, scratch } = this;
    if (factor !== 1) scratch.kernels.scale('float32', matrix.data, factor, matrix.rows * matrix.columns);
    eachRow(scratch, matrix, plan, (row, start) => into.set(row, start));
  }

  /**
   * Takes the matrix in, divided by a power of two if its values are very large or small (see {@link USUAL_EXPONENT}).
   * Returns that power, or 0 for a matrix of zeros.
   */
  private load(values: Float32Array): number {
    const { matrix, plan, scratch } = this;
    const { data, rows, columns } = matrix;
    const { kernels } = scratch;
    if (rows * columns > plan.a * plan.b) this.clear();
    eachRow(scratch, matrix, plan, (row, start, end) => row.set(values.subarray(start, end)));
    const largest = kernels.largestMagnitude(data, rows * columns);
    if (largest === 0) return 0;
    const exponent = (largest >>> 23) - 127;
    if (Math.abs(exponent) <= USUAL_EXPONENT) return 1;
    const unit = 2 ** Math.max(-126, Math.min(126, exponent));
    kernels.scale('float32', data, 1 / unit, rows * columns);
    return unit;
  }

  /**
   * Writes an orthonormal basis of the largest directions to `left`. Returns the length of the matrix in each, 0 for
   * none.
   */
  private findDirections(random: () => number): Float32Array {
    const { matrix, left, right, norms, signs, scratch, plan } = this;
    const { kernels } = scratch;
    const { rank } = plan;
    const signBytes = scratch.bytesAt(signs, Math.ceil(matrix.rows / 8));
    for (let i = 0; i < signBytes.length; i++) signBytes[i] = 256 * random();
    kernels.sumRows(matrix, signs, rank, right);
    kernels.rowProducts(matrix, right, rank, left);
    kernels.orthonormalize(left, matrix.rows, rank, norms);
    kernels.columnProducts(matrix, left, rank, right);
    kernels.orthonormalize(right, matrix.columns, rank, norms);
    kernels.rowProducts(matrix, right, rank, left);
    kernels.orthonormalize(left, matrix.rows, rank, norms);
    return scratch.at(norms, rank);
  }

  /** Rounds the columns that are sent, which become the first of `left`. */
  private roundLeft(lengths: Float32Array): RoundedColumn[] {
    const { matrix, left, plan, scratch } = this;
    const { kernels } = scratch;
    const mean = rootMeanSquare(lengths);
    const rounded: RoundedColumn[] = [];
    for (const [column, length] of lengths.entries()) {
      const step = length > 0 ? (plan.step * mean) / length : Infinity;
      if (step > LARGEST_STEP) continue;
      const used = Math.max(SMALLEST_STEP, step);
      const from = left + 4 * column * matrix.rows;
      const into = left + 4 * rounded.length * matrix.rows;
      if (into !== from) kernels.copy(from, into, matrix.rows);
      const size = used / Math.sqrt(plan.a); // a column has the length 1
      const largest = kernels.roundToSteps(into, matrix.rows, size, LARGEST_NUMBER);
      if (largest > 0) rounded.push({ step: used, largest });
    }
    return rounded;
  }

  /**
   * Fits the other factor to the rounded one, rounds it, and writes it to `fitted`. Returns the columns that are not
   * zero, and what they are multiplied by.
   */
  private fitRight(rounded: readonly RoundedColumn[], unit: number): { scale: number; columns: SentColumn[] } {
    const { matrix, left, right, fitted, square, scratch } = this;
    const { kernels } = scratch;
    const count = rounded.length;
    const nothing = { scale: 0, columns: [] };
    if (count === 0) return nothing;
    const padded = padded4(count);
    scratch.at(left + 4 * matrix.rows * count, matrix.rows * (padded - count)).fill(0);
    kernels.rowProducts({ data: left, rows: padded, columns: matrix.rows }, left, count, square);
    const products = scratch.at(square, padded * count);
    const inverse = inverseOf(Array.from({ length: count }, (_, j) => [...products.subarray(j * padded, j * padded + count)])); // prettier-ignore
    kernels.columnProducts(matrix, left, count, right);
    const coefficients = scratch.at(square, count * count);
    inverse.forEach((row, j) => coefficients.set(row, j * count));
    kernels.columnProducts({ data: right, rows: count, columns: matrix.columns }, square, count, fitted);

    const sizes = rounded.map(({ step }, column) => step * rootMeanSquare(this.rightOf(fitted, column)));
    const own = Math.fround(Math.max(...sizes) / LARGEST_MULTIPLE);
    const scale = Math.fround(own * unit);
    if (own === 0 || scale === 0) return nothing;
    let sum = 0;
    const columns = sizes.flatMap((size, column) => {
      const multiple = Math.max(1, Math.round(size / own));
      const values = fitted + 4 * column * matrix.columns;
      const largest = kernels.roundToSteps(values, matrix.columns, own * multiple, LARGEST_NUMBER);
      const more = multiple * largest * rounded[column]!.largest;
      if (more === 0 || sum + more >= SUM_LIMIT || !isInRange(scale, Math.fround(sum + more))) return [];
      sum += more;
      return [{ column, multiple }];
    });
    return { scale, columns };
  }

  private leftOf(column: number): Float32Array {
    return this.scratch.at(this.left + 4 * column * this.matrix.rows, this.plan.a);
  }

  private rightOf(place: Pointer, column: number): Float32Array {
    return this.scratch.at(place + 4 * column * this.matrix.columns, this.plan.b);
  }
}

/** A column of P̂: its step, and its largest magnitude. */
interface RoundedColumn {
  readonly step: number;
  readonly largest: number;
}

/** A column of the factors, and the multiple of the scale that it is multiplied by. */
interface SentColumn {
  readonly column: number;
  readonly multiple: number;
}

function padded4(length: number): number {
  return 4 * Math.ceil(length / 4);
}

/** Calls a function with each row of a padded matrix, and where it is without padding. With all, if none is padded. */
function eachRow(
  scratch: CodeScratch,
  { data, columns }: Matrix,
  { a, b }: FactorPlan,
  visit: (row: Float32Array, start: number, end: number) => void,
): void {
  if (columns === b) return visit(scratch.at(data, a * b), 0, a * b);
  for (let i = 0; i < a; i++) visit(scratch.at(data + 4 * i * columns, b), i * b, (i + 1) * b);
}

/** The inverse of a symmetric positive matrix. Rows and columns that are sums of those before are zero in it. */
function inverseOf(matrix: readonly (readonly number[])[]): number[][] {
  const n = matrix.length;
  const rows = matrix.map((row, j) => [...row, ...row.map((_, k) => Number(j === k))]);
  for (let j = 0; j < n; j++) {
    const pivot = rows[j]![j]!;
    if (!(pivot > SMALLEST_PIVOT * matrix[j]![j]!)) {
      rows.forEach(row => (row[j] = row[n + j] = 0));
      rows[j]!.fill(0);
      continue;
    }
    const own = rows[j]!.map(value => value / pivot);
    rows.forEach((row, i) => {
      if (i === j) rows[i] = own;
      else if (row[j] !== 0) rows[i] = row.map((value, k) => value - row[j]! * own[k]!);
    });
  }
  return rows.map(row => row.slice(n));
}

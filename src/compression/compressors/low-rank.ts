import { CodeScratch } from './code-scratch';
import { FactorCode } from './factor-code';
import type { TensorCodes } from './tensor-code';
import { WholeCode } from './whole-code';

/** The options of {@link lowRankCodes}, checked. */
export interface LowRankNumbers {
  /** Undefined: {@link chooseRank}. */
  readonly rank?: number;
  readonly step: number;
}

/** The largest rank that is chosen. With more, the time of a step grows, and little is left to gain. */
const LARGEST_CHOSEN = 12;

/** How many bits an element of the matrices may take. On four ranks that is 64 times less than the dense ring sends. */
const BITS_PER_ELEMENT = 0.25;

/**
 * A gradient as the product of two thin matrices of small whole numbers. A tensor is an a × b matrix M, the gradient
 * plus what was kept, whose last dimension is b. A rank sends M ≈ P̂Q̂ᵀ of at most `rank` columns:
 *
 * 1. P is an orthonormal basis of nearly those directions in which M is largest: two steps of subspace iteration
 *    (Halko, Martinsson and Tropp 2011, section 4.5), from sums of the rows of M with random signs.
 * 2. σⱼ is the length of M in the direction of column j, and σ̄ the root of their mean square. Column j has the step cⱼ
 *    = step · σ̄/σⱼ, at least 0.25, so that rounding loses about as much in each. If the step is larger than 2.5 the
 *    column is left out.
 * 3. P̂ⱼ is Pⱼ rounded to multiples of cⱼ root mean squares. X = MᵀP̂(P̂ᵀP̂)⁻¹ fits to the rounded P̂, and Q̂ⱼ is Xⱼ
 *    rounded in the same way, but that the scales of all columns are 1 to 63 times the smallest one.
 *
 * What M lacks of P̂Q̂ᵀ is kept, and added to the next gradient (error feedback). The products of all ranks are added
 * in the order of ranks. The factors of a narrow matrix have fewer columns, so that they are at most half as long as
 * the matrix. Small tensors, and matrices too narrow for one column, are sent whole, as multiples of `step` root mean
 * squares, with error feedback, too. A scalar is sent as it is.
 *
 * In a ring so large that the dense ring takes less time than the messages of all ranks, a tensor is averaged there.
 *
 * Nothing but what was kept lasts from step to step. A product of factors is an exact sum of whole numbers, times one
 * scale. Other sums over a matrix are in float32, in one order: all machines have the same bits.
 */
export function lowRankCodes(
  { step, ...given }: LowRankNumbers,
  shapes: readonly (readonly number[])[] = [],
): TensorCodes {
  const rank = given.rank ?? chooseRank(shapes, step);
  let made: CodeScratch | undefined;
  const scratch = () => (made ??= new CodeScratch()); // only threads that code need it
  return {
    messageBits: (shape, isSmall) => messageBitsOf(shape, isSmall ? 0 : rank, step),
    code(shape, isSmall) {
      const matrix = matrixOf(shape);
      const columns = isSmall ? 0 : columnsOf(matrix, rank);
      if (columns === 0) return new WholeCode(scratch(), matrix.a * matrix.b, step);
      return new FactorCode(scratch(), { ...matrix, rank: columns, step });
    },
  };
}

/**
 * The rank for tensors of these shapes, if none is given: the largest with which their factors take a quarter of a bit
 * for each of their elements, at least 1 and at most 12.
 */
export function chooseRank(shapes: readonly (readonly number[])[], step: number): number {
  const matrices = shapes.map(matrixOf);
  const most = BITS_PER_ELEMENT * matrices.reduce((sum, { a, b }) => sum + a * b, 0);
  let rank = LARGEST_CHOSEN;
  const bits = () => matrices.reduce((sum, each) => sum + factorBits(each, columnsOf(each, rank), step), 0);
  while (rank > 1 && bits() > most) rank--;
  return rank;
}

/** How many bits the message of a tensor is expected to have. A `rank` of 0: it is sent whole. */
export function messageBitsOf(shape: readonly number[], rank: number, step: number): number {
  const matrix = matrixOf(shape);
  const columns = columnsOf(matrix, rank);
  return columns === 0 ? wholeBits(matrix.a * matrix.b, step) : factorBits(matrix, columns, step);
}

/** The entropy of a normal number that is rounded, in steps of so many deviations, and what Rice code adds. */
function bitsPerNumber(step: number): number {
  return 1.05 * (2.05 - Math.log2(step));
}

function wholeBits(elements: number, step: number): number {
  return bitsPerNumber(step) * elements;
}

function factorBits({ a, b }: MatrixShape, columns: number, step: number): number {
  return bitsPerNumber(step) * columns * (a + b);
}

interface MatrixShape {
  readonly a: number;
  readonly b: number;
}

function matrixOf(shape: readonly number[]): MatrixShape {
  const b = Math.max(1, shape.at(-1) ?? 1);
  return { a: shape.reduce((product, size) => product * size, 1) / b, b };
}

/** How many columns the factors of a matrix have. None, if one column would take more than half of its length. */
function columnsOf({ a, b }: MatrixShape, rank: number): number {
  return Math.min(rank, Math.floor((a * b) / (a + b) / 2));
}

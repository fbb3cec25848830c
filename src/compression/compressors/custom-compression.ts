import { isAbsolute } from 'node:path';
import { inspect } from 'node:util';
import { checkOptions } from '../../check-options';
import { invalidArgument } from '../../errors';
import { requirePlain } from '../../plain-json';
import { type ClipPlace, requireClipPlace, requireNorm } from '../clipping';

/** What every compression has that is a {@link Compressor}, and {@link lowRank}. */
export interface CustomOptions {
  /** As for {@link dgc}: the norm to which the gradient of the whole ring is clipped. Default: no clipping. */
  readonly clipNorm?: number | undefined;
  /** What is clipped: see {@link ClipPlace}. Default `rank`, but for {@link lowRank} `mean`. */
  readonly clipAt?: ClipPlace | undefined;
  /**
   * Tensors with fewer elements are averaged as they are, as tensors of one dimension always are. ({@link lowRank}
   * rounds both.) Default 1024.
   */
  readonly denseBelow?: number | undefined;
  /** The seed of the random numbers. Default 0. */
  readonly seed?: number | undefined;
}

/**
 * A compression whose {@link Compressor}, or its codes with {@link lowRank}, is made on each thread that needs
 * it. Plain data.
 */
export interface CustomCompression {
  readonly kind: 'custom';
  /** The name of a compressor of gradring, or the path of a module that exports a {@link CompressorFactory}. */
  readonly compressor: string;
  /** What the factory is called with. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly clipNorm: number | undefined;
  readonly clipAt: ClipPlace;
  readonly denseBelow: number;
  readonly seed: number;
}

const COMMON = { clipNorm: true, clipAt: true, denseBelow: true, seed: true } as const;

/**
 * Compresses by 1-bit SGD (Seide et al., Interspeech 2014, section 3): one bit for each value, two means for each
 * column, and error feedback. A rank with the gradient G and the error Δ sends Q(G + Δ), and keeps Δ ← G + Δ − Q⁻¹(Q(G
 * + Δ)).
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: oneBit() });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function oneBit(options: CustomOptions = {}): CustomCompression {
  checkOptions('oneBit()', options, COMMON);
  return compressionOf('oneBit', 'oneBit()', options, {});
}

/**
 * Compresses by TernGrad (Wen et al., NIPS 2017, section 3, equations 1 to 3): each value becomes −s, 0 or s at random,
 * where s is the largest magnitude of the tensor on any rank, and the result is unbiased, except for values beyond 2.5
 * standard deviations, which are clipped. Nothing is kept for later steps.
 *
 * The deviation is that from the tensor's mean, as in the authors' code: the method takes gradients for normal numbers
 * around 0. A tensor whose gradient has a mean of many deviations moves too slowly. One whose elements are all equal
 * never moves. Raise `denseBelow` above its size: it is then averaged as it is. `qsgd()` does not clip.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: ternGrad({ seed: 7 }) });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function ternGrad(options: CustomOptions = {}): CustomCompression {
  checkOptions('ternGrad()', options, COMMON);
  return compressionOf('ternGrad', 'ternGrad()', options, {});
}

/** The options of {@link qsgd}. */
export interface QsgdOptions extends CustomOptions {
  /** s: how many levels there are between 0 and the norm of a bucket. Default 16. */
  readonly levels?: number | undefined;
  /** How many values share a norm. Default 512, as in the paper. */
  readonly bucket?: number | undefined;
}

/**
 * Compresses by QSGD (Alistarh et al., NIPS 2017, section 3.1): Q(v) = ‖v‖₂ · sgn(v) · ξ(v, s). That rounds values at
 * random to multiples of their bucket's norm ÷ levels, so that the result is unbiased. They are sent in Elias's code.
 * Nothing is kept for later steps.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: qsgd({ levels: 4, bucket: 512 }) });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function qsgd(options: QsgdOptions = {}): CustomCompression {
  checkOptions('qsgd()', options, { ...COMMON, levels: true, bucket: true });
  const { levels = 16, bucket = 512 } = options;
  requireWhole('qsgd()', { levels }, 1, 2 ** 20);
  requireWhole('qsgd()', { bucket }, 1, 2 ** 30);
  return compressionOf('qsgd', 'qsgd()', options, { levels, bucket });
}

/** The options of {@link powerSgd}. */
export interface PowerSgdOptions extends CustomOptions {
  /** r: the rank of the approximation. Default 2. */
  readonly rank?: number | undefined;
}

/**
 * Compresses by PowerSGD (Vogels et al., NeurIPS 2019, Algorithms 1 and 2): the mean of a matrix is approximated by the
 * product of two thin ones, P̂Qᵀ, which the ring averages. Error feedback keeps the rest. What travels does not grow
 * with the ranks.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: powerSgd({ rank: 4 }) });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function powerSgd(options: PowerSgdOptions = {}): CustomCompression {
  checkOptions('powerSgd()', options, { ...COMMON, rank: true });
  const { rank = 2, seed = 0 } = options;
  requireWhole('powerSgd()', { rank }, 1, 2 ** 16);
  return compressionOf('powerSgd', 'powerSgd()', options, { rank, seed });
}

/** The default of its `step`. */
export const LOW_RANK_STEP = 0.7;

/** The options of {@link lowRank}. */
export interface LowRankOptions extends CustomOptions {
  /**
   * The most columns of the two factors of a matrix. Default: the largest, up to 12, with which the factors of all
   * matrices of the model take a quarter of a bit for each element. On four ranks that is 64 times less than dense.
   */
  readonly rank?: number | undefined;
  /**
   * How coarsely numbers are rounded, in root mean squares of a column, or of a small tensor: 0.5 sends about 3 bits
   * for each number, 1 about 2.2. Default 0.7.
   */
  readonly step?: number | undefined;
}

/**
 * Compresses by low rank: each rank sends its gradient as the product of two thin matrices of small whole numbers, and
 * keeps what that loses. For trainings too short for {@link dgc} at 99.9 %: a gradient has few large directions, so
 * most of it is sent in each step, in as few bytes. Small tensors are sent as whole numbers, too. The clip norm clips
 * the mean, and the momentum is that of the mean, as in a training on one process. What travels grows with the ranks.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: lowRank({ rank: 8 }) });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function lowRank(options: LowRankOptions = {}): CustomCompression {
  checkOptions('lowRank()', options, { ...COMMON, rank: true, step: true });
  const { rank, step = LOW_RANK_STEP } = options;
  if (rank !== undefined) requireWhole('lowRank()', { rank }, 1, 2 ** 16 - 1);
  // With a step of 2, a tensor of equal values would be rounded to zero in every step.
  if (!(typeof step === 'number' && step >= 0.01 && step <= 1.9)) {
    throw invalidArgument(`lowRank(): step is a number from 0.01 to 1.9, not ${inspect(step)}`);
  }
  return compressionOf(
    'lowRank',
    'lowRank()',
    { ...options, clipAt: options.clipAt ?? 'mean' },
    { ...(rank !== undefined && { rank }), step },
  );
}

/** The options of {@link customCompression}. */
export interface CustomCompressionOptions extends CustomOptions {
  /** What the module's factory is called with: plain JSON, the same on all ranks. Default {}. */
  readonly options?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Compresses by a compressor of your own. The module is a CommonJS file that exports a {@link CompressorFactory}. It is
 * loaded on the main thread and on the comm thread of each rank. docs/how-to/compressor.md shows one.
 *
 * ```ts
 * const compression = customCompression('/home/me/sign-sgd.js', { clipNorm: 5 });
 * console.log(compression.compressor); // /home/me/sign-sgd.js
 * ```
 *
 * @param module The absolute path of the file.
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range. `ring.wrap` throws it
 *   if the file cannot be loaded, or exports something else.
 */
export function customCompression(module: string, options: CustomCompressionOptions = {}): CustomCompression {
  checkOptions('customCompression()', options, { ...COMMON, options: true });
  if (typeof module !== 'string' || !isAbsolute(module)) {
    throw invalidArgument(
      `customCompression(): the module is an absolute path, such as require.resolve('./my-compressor'), not ${inspect(module)}`,
    );
  }
  const own = requirePlain(options.options ?? {}, 'customCompression() cannot compare and pass on', 'options');
  return compressionOf(module, 'customCompression()', options, own);
}

function compressionOf(
  compressor: string,
  caller: string,
  { clipNorm, clipAt = 'rank', denseBelow = 1024, seed = 0 }: CustomOptions,
  options: CustomCompression['options'],
): CustomCompression {
  requireNorm(caller, clipNorm);
  requireClipPlace(caller, clipAt);
  requireWhole(caller, { denseBelow }, 0, Number.MAX_SAFE_INTEGER);
  requireWhole(caller, { seed }, 0, 2 ** 32 - 1);
  return Object.freeze({
    kind: 'custom',
    compressor,
    options: Object.freeze({ ...options }),
    clipNorm,
    clipAt,
    denseBelow,
    seed,
  });
}

function requireWhole(caller: string, option: Record<string, unknown>, least: number, most: number): void {
  const [[name, value]] = Object.entries(option) as [[string, unknown]];
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return;
  throw invalidArgument(`${caller}: ${name} is a whole number from ${least} to ${most}, not ${inspect(value)}`);
}

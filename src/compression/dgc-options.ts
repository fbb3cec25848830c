import { inspect } from 'node:util';
import { checkOptions } from '../check-options';
import { invalidArgument } from '../errors';
import { VALUE_FORMATS, type ValueFormat } from './value-format';

/** How {@link dgc} compresses. Every option has a default. */
export interface DgcOptions {
  /**
   * The fraction of a tensor's elements that a step holds back, from 0 up to but not including 1. Default: chosen by
   * the number of steps; see docs/how-to/compression.md.
   */
  readonly sparsity?: number | undefined;
  /**
   * How many optimizer steps the training has, if no sparsity is given. For `model.fit`, `ring.callbacks()` sets it.
   */
  readonly steps?: number | undefined;
  /**
   * Over how many epochs the sparsity rises to its final value; 0: no warm-up. Default 4, if a sparsity is given.
   */
  readonly warmUpEpochs?: number | undefined;
  /** The same in optimizer steps, for loops without epochs. Use it instead of `warmUpEpochs`. */
  readonly warmUpSteps?: number | undefined;
  /** `sparse`: the warm-up sends a falling fraction (paper, section 3.3). `dense`: everything. Default `sparse`. */
  readonly warmUp?: 'sparse' | 'dense' | undefined;
  /** The global L2 norm to which gradients are clipped (paper, section 3.2). Default: no clipping. */
  readonly clipNorm?: number | undefined;
  /**
   * Tensors with fewer elements travel whole, rounded to `values`. Tensors of one dimension always do. Default 1024.
   */
  readonly denseBelow?: number | undefined;
  /**
   * Whether an element that is sent loses its momentum (momentum factor masking; paper, section 3.3). Default true. If
   * no sparsity is given, only at densities below 0.01: above that, elements are sent so often that masking would
   * remove most of the momentum.
   */
  readonly masking?: boolean | undefined;
  /** The format of the values. What a format loses is kept and sent later. Default `float16`. */
  readonly values?: ValueFormat | undefined;
}

/** What {@link dgc} returns: its options, checked and completed. Frozen plain data. */
export interface DgcCompression {
  readonly kind: 'dgc';
  /** `auto`: it will be chosen by the number of steps. */
  readonly sparsity: number | 'auto';
  /** How many steps the training has; 0 if that is not known. */
  readonly steps: number;
  /** 0 if the warm-up counts steps, or if there is none. Undefined if it will be chosen with the sparsity. */
  readonly warmUpEpochs: number | undefined;
  /** 0 if the warm-up counts epochs, or if there is none. */
  readonly warmUpSteps: number;
  readonly warmUp: 'sparse' | 'dense';
  readonly clipNorm: number | undefined;
  readonly denseBelow: number;
  /** At densities below this one, an element that is sent loses its momentum. */
  readonly maskBelow: number;
  readonly values: ValueFormat;
}

/** {@link DgcCompression} with a sparsity that was given or chosen. */
export interface ChosenDgc extends DgcCompression {
  readonly sparsity: number;
  readonly warmUpEpochs: number;
}

/** What {@link noCompression} returns. */
export interface NoCompression {
  readonly kind: 'none';
}

/** How gradients are compressed: what {@link dgc} or {@link noCompression} returns. */
export type Compression = DgcCompression | NoCompression;

const OPTIONS = {
  ...{ sparsity: true, steps: true, masking: true, warmUpEpochs: true, warmUpSteps: true, warmUp: true },
  ...{ clipNorm: true, denseBelow: true, values: true },
} as const satisfies Record<keyof DgcOptions, true>;

/**
 * Deep Gradient Compression (Lin et al., ICLR 2018), for {@link Ring.wrap}. Without a sparsity it chooses one by the
 * number of steps. With a sparsity it has the warm-up and the momentum factor masking of the paper.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ sparsity: 0.999, clipNorm: 5 }) });
 * console.log(dgc({ sparsity: 0.999 }).warmUpEpochs); // 4
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown, out of range, or contradicts another.
 */
export function dgc(options: DgcOptions & { readonly sparsity: number }): ChosenDgc;
export function dgc(options?: DgcOptions): DgcCompression;
export function dgc(options: DgcOptions = {}): DgcCompression {
  checkOptions('dgc()', options, OPTIONS);
  const {
    sparsity = 'auto',
    steps,
    masking,
    warmUpEpochs,
    warmUpSteps,
    warmUp = 'sparse',
    clipNorm,
    denseBelow = 1024,
    values = 'float16',
  } = options;

  if (sparsity === 1) {
    throw invalidArgument(
      'dgc(): sparsity 1 would hold back every gradient for ever, and nothing would be learned; ' +
        'it is the fraction that is not sent at a step, such as 0.999',
    );
  }
  if (sparsity !== 'auto' && (typeof sparsity !== 'number' || !(sparsity >= 0 && sparsity < 1))) {
    throw invalidArgument(
      `dgc(): sparsity is the fraction of a gradient held back, from 0 up to but not including 1, not ${inspect(sparsity)}`,
    );
  }
  if (steps !== undefined) requireCount('steps', steps);
  if (steps !== undefined && sparsity !== 'auto') {
    throw invalidArgument('dgc(): give either sparsity, or the steps by which it is chosen, not both');
  }
  if (masking !== undefined && typeof masking !== 'boolean') {
    throw invalidArgument(`dgc(): masking is true or false, not ${inspect(masking)}`);
  }
  if (warmUpEpochs !== undefined && warmUpSteps !== undefined) {
    throw invalidArgument(
      'dgc(): give the length of the warm-up either as warmUpEpochs or as warmUpSteps, not as both',
    );
  }
  if (warmUpEpochs !== undefined) requireCount('warmUpEpochs', warmUpEpochs);
  if (warmUpSteps !== undefined) requireCount('warmUpSteps', warmUpSteps);
  if (warmUp !== 'sparse' && warmUp !== 'dense') {
    throw invalidArgument(
      `dgc(): warmUp is 'sparse' or 'dense', not ${inspect(warmUp)}; its length is warmUpEpochs or warmUpSteps`,
    );
  }
  if (clipNorm !== undefined && !(typeof clipNorm === 'number' && clipNorm > 0 && Number.isFinite(clipNorm))) {
    throw invalidArgument(
      `dgc(): clipNorm is a positive, finite norm, not ${inspect(clipNorm)}; leave it out for no clipping`,
    );
  }
  requireCount('denseBelow', denseBelow);
  if (!VALUE_FORMATS.includes(values)) {
    throw invalidArgument(`dgc(): values is one of ${VALUE_FORMATS.join(', ')}, not ${inspect(values)}`);
  }

  const isChosen = sparsity === 'auto' && options.warmUp === undefined;
  return Object.freeze({
    kind: 'dgc',
    sparsity,
    steps: steps ?? 0,
    warmUpEpochs: warmUpSteps === undefined ? (warmUpEpochs ?? (isChosen ? undefined : 4)) : 0,
    warmUpSteps: warmUpSteps ?? 0,
    warmUp,
    clipNorm,
    denseBelow,
    maskBelow: masking === undefined ? (sparsity === 'auto' ? 0.01 : 1) : Number(masking),
    values,
  });
}

/**
 * No compression: every gradient travels whole, as float32, by dense all-reduce.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.adam(0.001), { compression: noCompression() });
 * ```
 */
export function noCompression(options: Record<string, never> = {}): NoCompression {
  checkOptions('noCompression()', options, {});
  return Object.freeze({ kind: 'none' });
}

/** The format of the values under that compression. */
export function valueFormatOf(compression: Compression): ValueFormat {
  return compression.kind === 'dgc' ? compression.values : 'float32';
}

function requireCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalidArgument(`dgc(): ${name} is a whole number from 0 on, not ${inspect(value)}`);
  }
}

import { inspect } from 'node:util';
import { checkOptions } from '../check-options';
import { invalidArgument } from '../errors';
import type { CustomCompression } from './compressors/custom-compression';
import { type ClipPlace, requireClipPlace, requireNorm } from './clipping';
import { VALUE_FORMATS, type ValueFormat } from './value-format';

/** How {@link dgc} compresses. Every option has a default. */
export interface DgcOptions {
  /**
   * The fraction of a tensor's elements that each step holds back, 0 up to but not including 1. Default: it depends on
   * the number of steps, see {@link chooseSparsity}.
   */
  readonly sparsity?: number | undefined;
  /**
   * How many optimizer steps the training will have, if no sparsity is given. For `model.fit`, `ring.callbacks()` finds
   * it out.
   */
  readonly steps?: number | undefined;
  /** Epochs over which the sparsity rises to its final value; 0 for no warm-up. Default 4, if a sparsity is given. */
  readonly warmUpEpochs?: number | undefined;
  /** The same in optimizer steps, for loops without epochs. Use it instead of `warmUpEpochs`. */
  readonly warmUpSteps?: number | undefined;
  /** `sparse`: the warm-up sends a falling fraction (paper, section 3.3). `dense`: everything. Default `sparse`. */
  readonly warmUp?: 'sparse' | 'dense' | undefined;
  /**
   * The global L2 norm to which gradients are clipped. At a rank, its own gradient is clipped to this norm times √N,
   * which clips the mean to it if the gradients of the ranks are independent. Default: no clipping.
   */
  readonly clipNorm?: number | undefined;
  /**
   * What is clipped: see {@link ClipPlace}. Default `rank`, as in the paper. Without a sparsity and without a momentum,
   * `mean`: that loses less, and with a momentum the ranks send sums of gradients, which have another norm.
   */
  readonly clipAt?: ClipPlace | undefined;
  /**
   * Whether what is held back is multiplied by old ÷ new learning rate when the rate changes. Then it is applied with
   * the rate of the steps that computed it, as without compression. Default false, as in the paper.
   */
  readonly rescaleResiduals?: boolean | undefined;
  /**
   * Tensors with fewer elements are sent whole, rounded to `values`, as tensors of one dimension always are. Default
   * 1024.
   */
  readonly denseBelow?: number | undefined;
  /**
   * Whether the momentum of an element is set to zero when it is sent (momentum factor masking, section 3.3 of the
   * paper). Default: true, but if no sparsity is given, only at densities below 0.05. At higher densities elements are
   * sent so often that masking would take most of the momentum away.
   */
  readonly masking?: boolean | undefined;
  /**
   * Whether a rank applies the momentum to its own gradient, before it selects what to send (momentum correction,
   * section 3.2 of the paper). If not, the momentum is applied to the average, as without compression, and nothing is
   * masked. Default true.
   */
  readonly momentumCorrection?: boolean | undefined;
  /** The format of values. What it loses is kept and sent later. Default 'float16', without a sparsity 'log4'. */
  readonly values?: ValueFormat | undefined;
  /**
   * How the entries travel. `sparse`: each rank sends its own to all; `mixed`: the same, beside a dense ring for small
   * tensors; `dense`: by the dense ring. These apply the same updates, and the default takes the one that is expected
   * to be fastest. `scatter`: by a sparse reduce-scatter, in which a rank sends no more in a large ring than in a
   * small one; of the entries of all ranks only the largest are applied, and the others are held back. `any`: each step
   * takes the one of all four that is expected to be fastest, so the updates depend on the links and on the ranks.
   */
  readonly route?: EntryRoute | 'any' | undefined;
  /**
   * Whether the ranks that are beside each other on one host add their gradients first, and one of them compresses the
   * sum. Then the hosts are the peers of the algorithm: between them travels one gradient for each host, not for each
   * rank, and the mean of a host is clipped as that of a rank. For hosts with several ranks on a network that is slower
   * than their memory. Default false. Not for elastic runs, nor with the routes `scatter` and `any`.
   */
  readonly perHost?: boolean | undefined;
}

/** The checked options of {@link dgc}, with defaults filled in. Frozen plain data, which may be structured-cloned. */
export interface DgcCompression {
  readonly kind: 'dgc';
  /** `auto`: it depends on the number of steps. */
  readonly sparsity: number | 'auto';
  /** How many steps the training has. 0 if not known. */
  readonly steps: number;
  /** 0 if the warm-up is counted in steps, or if there is none. Undefined if it is chosen with the sparsity. */
  readonly warmUpEpochs: number | undefined;
  /** 0 if the warm-up is counted in epochs, or if there is none. */
  readonly warmUpSteps: number;
  readonly warmUp: 'sparse' | 'dense';
  readonly clipNorm: number | undefined;
  /** `auto`: it depends on the momentum. */
  readonly clipAt: ClipPlace | 'auto';
  readonly rescaleResiduals: boolean;
  readonly denseBelow: number;
  /** At lower densities, the momentum of what is sent is set to zero. */
  readonly maskBelow: number;
  readonly momentumCorrection: boolean;
  readonly values: ValueFormat;
  /** `auto`: of {@link SAME_UPDATES}, `any`: of {@link ENTRY_ROUTES} the one that is expected to be fastest. */
  readonly route: EntryRoute | 'any' | 'auto';
  readonly perHost: boolean;
}

/** {@link DgcCompression} with a sparsity that was given or chosen. */
export interface ChosenDgc extends DgcCompression {
  readonly sparsity: number;
  readonly warmUpEpochs: number;
}

/** The routes that apply the same updates. */
export const SAME_UPDATES = ['sparse', 'mixed', 'dense'] as const;
export type SameUpdates = (typeof SAME_UPDATES)[number];

/** The routes on which the entries of a step may travel: each has a file in `exchange/routes`. */
export const ENTRY_ROUTES = [...SAME_UPDATES, 'scatter'] as const;
export type EntryRoute = (typeof ENTRY_ROUTES)[number];

/** The options of {@link gradientDropping}: as for {@link dgc}. */
export type GradientDroppingOptions = Pick<DgcOptions, 'sparsity' | 'clipNorm' | 'clipAt' | 'denseBelow' | 'values'>;

/** Gradients are sent whole. */
export interface NoCompression {
  readonly kind: 'none';
  readonly clipNorm: number | undefined;
}

/** The options of {@link noCompression}. */
export interface NoCompressionOptions {
  /**
   * The global L2 norm to which the mean of the ranks' gradients is clipped, as in a training on one process. The paper
   * calls this the conventional way (section 3.2). Default: no clipping.
   */
  readonly clipNorm?: number | undefined;
}

/** How gradients are compressed: what {@link dgc}, {@link noCompression}, {@link qsgd} and the like return. */
export type Compression = DgcCompression | NoCompression | CustomCompression;

const OPTIONS = {
  ...{ sparsity: true, steps: true, masking: true, warmUpEpochs: true, warmUpSteps: true, warmUp: true },
  ...{ clipNorm: true, clipAt: true, rescaleResiduals: true, denseBelow: true, values: true },
  ...{ momentumCorrection: true, route: true, perHost: true },
} as const satisfies Record<keyof DgcOptions, true>;

/**
 * Compresses by Deep Gradient Compression (Lin et al., ICLR 2018), for {@link Ring.wrap}: Algorithm 1 with local
 * gradient clipping and momentum correction (section 3.2), momentum factor masking and warm-up (section 3.3). Without a
 * sparsity it chooses one by the number of steps, and decides whether there is a warm-up. With a sparsity it has the
 * warm-up and the momentum factor masking of the paper.
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
    clipAt,
    rescaleResiduals = false,
    denseBelow = 1024,
    momentumCorrection = true,
    values = sparsity === 'auto' ? 'log4' : 'float16',
    route = 'auto',
    perHost = false,
  } = options;

  if (sparsity === 1) {
    throw invalidArgument(
      'dgc(): sparsity is the fraction that a step does not send, such as 0.999; ' +
        'with 1 no gradient would ever be sent',
    );
  }
  if (sparsity !== 'auto' && (typeof sparsity !== 'number' || !(sparsity >= 0 && sparsity < 1))) {
    throw invalidArgument(
      `dgc(): sparsity is the fraction of a gradient held back, from 0 up to but not including 1, not ${inspect(sparsity)}`,
    );
  }
  if (steps !== undefined) requireCount('steps', steps);
  if (steps !== undefined && sparsity !== 'auto') {
    throw invalidArgument('dgc(): give either sparsity or steps, by which sparsity is chosen, not both');
  }
  for (const [name, value] of Object.entries({ masking, momentumCorrection, rescaleResiduals, perHost })) {
    if (value === undefined || typeof value === 'boolean') continue;
    throw invalidArgument(`dgc(): ${name} is true or false, not ${inspect(value)}`);
  }
  if (masking === true && !momentumCorrection) {
    throw invalidArgument('dgc(): without momentumCorrection no rank has a momentum of its own that could be masked');
  }
  if (warmUpEpochs !== undefined && warmUpSteps !== undefined) {
    throw invalidArgument('dgc(): give the length of the warm-up either as warmUpEpochs or as warmUpSteps, not both');
  }
  if (warmUpEpochs !== undefined) requireCount('warmUpEpochs', warmUpEpochs);
  if (warmUpSteps !== undefined) requireCount('warmUpSteps', warmUpSteps);
  if (warmUp !== 'sparse' && warmUp !== 'dense') {
    throw invalidArgument(
      `dgc(): warmUp is 'sparse' or 'dense', not ${inspect(warmUp)}; its length is warmUpEpochs or warmUpSteps`,
    );
  }
  requireNorm('dgc()', clipNorm);
  requireClipPlace('dgc()', clipAt);
  requireCount('denseBelow', denseBelow);
  if (!VALUE_FORMATS.includes(values)) {
    throw invalidArgument(`dgc(): values is one of ${VALUE_FORMATS.join(', ')}, not ${inspect(values)}`);
  }

  if (route !== 'auto' && route !== 'any' && !ENTRY_ROUTES.includes(route)) {
    throw invalidArgument(`dgc(): route is one of ${ENTRY_ROUTES.join(', ')}, any, not ${inspect(route)}`);
  }
  if (perHost && (route === 'scatter' || route === 'any')) {
    throw invalidArgument("dgc(): with perHost the entries travel as a whole; the route 'scatter' divides them");
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
    clipAt: clipAt ?? (sparsity === 'auto' ? 'auto' : 'rank'),
    rescaleResiduals,
    denseBelow,
    maskBelow: momentumCorrection ? maskBelow(masking, sparsity) : 0,
    momentumCorrection,
    values,
    route,
    perHost,
  });
}

/**
 * Compresses by Gradient Dropping (Aji and Heafield, EMNLP 2017, section 3, algorithm 1): each rank sends the elements
 * of its gradient with the largest magnitudes, and keeps the rest for later steps. There is no momentum correction, no
 * masking and no warm-up: the momentum is applied to the average. As in {@link dgc}, each tensor has its own threshold
 * ("local threshold"), and the selection is exact.
 *
 * The paper's sparsity is 0.99, which is the default. The default of `values` is 'float32'.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: gradientDropping({ sparsity: 0.999 }) });
 * console.log(gradientDropping().momentumCorrection); // false
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function gradientDropping(options: GradientDroppingOptions = {}): ChosenDgc {
  checkOptions('gradientDropping()', options, {
    sparsity: true,
    clipNorm: true,
    clipAt: true,
    denseBelow: true,
    values: true,
  });
  const { sparsity = 0.99, values = 'float32', ...others } = options;
  return dgc({ ...others, sparsity, values, momentumCorrection: false, warmUpEpochs: 0 });
}

/**
 * Compresses nothing: every gradient is sent whole, as float32, by dense all-reduce.
 *
 * ```ts
 * const optimizer = ring.wrap(tf.train.adam(0.001), { compression: noCompression() });
 * ```
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for an option that is unknown or out of range.
 */
export function noCompression(options: NoCompressionOptions = {}): NoCompression {
  checkOptions('noCompression()', options, { clipNorm: true });
  const { clipNorm } = options;
  requireNorm('noCompression()', clipNorm);
  return Object.freeze({ kind: 'none', clipNorm });
}

/** The density below which momentum is masked. */
function maskBelow(masking: boolean | undefined, sparsity: DgcCompression['sparsity']): number {
  if (masking !== undefined) return Number(masking);
  return sparsity === 'auto' ? 0.05 : 1;
}

function requireCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalidArgument(`dgc(): ${name} is a whole number of at least 0, not ${inspect(value)}`);
  }
}

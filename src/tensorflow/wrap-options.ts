import { inspect } from 'node:util';
import { checkOptions, requireBoolean, requireOneOf } from '../check-options';
import type { Compression } from '../compression/dgc-options';
import { invalidArgument } from '../errors';
import type { LearningRateRule } from '../core/ring-agreement';
import { checkCompression, hintAtName } from '../core/step-options';

/** The outer optimizer of local steps: stochastic gradient descent with momentum. */
export interface OuterOptions {
  /** Default 0.7. */
  readonly learningRate?: number;
  /** At least 0, and less than 1. Default 0.9. */
  readonly momentum?: number;
  /** Whether the momentum is Nesterov's. Default true. */
  readonly nesterov?: boolean;
}

/** What {@link Ring.wrap} may take. */
export interface WrapOptions {
  /**
   * What `dgc`, `noCompression`, `lowRank`, `qsgd` and the like return. Default: `lowRank()`. In a `model.fit` of
   * 10,000 exchanges or more, with `tf.train.sgd`, `tf.train.momentum` or `localSteps`, it is `dgc` at a sparsity of
   * 0.999, with a warm-up over 4 % of the steps.
   */
  readonly compression?: Compression;
  /**
   * What to do when a gradient holds NaN or infinity on some rank. `error` raises `ERR_NON_FINITE` on every rank.
   * `skip` applies nothing on any rank and continues. In both cases that rank's gradient is dropped. The other ranks
   * keep theirs for later steps where the compression keeps what it does not send: not in tensors that travel whole
   * as float32, and not with `noCompression`, `ternGrad` and `qsgd`. State that has overflowed is set to zero on all
   * ranks. Default `error`.
   */
  readonly onNonFinite?: 'error' | 'skip';
  /**
   * In an elastic run the ring may change its size. `linear` multiplies the learning rate by worldSize ÷ the size at
   * the launch, so that the gradient of each rank keeps its weight. `constant` does not change it. Default `linear`,
   * and `constant` with `localSteps`.
   */
  readonly learningRateRule?: LearningRateRule;
  /**
   * Adds this factor times the weights to the gradient (L2 regularisation). A function gives each variable a factor of
   * its own, by its name, the same on all ranks: `name => (/kernel/.test(name) ? 1e-4 : 0)` leaves out biases and
   * norms. Do not also give the layers a regularizer. Default 0.
   */
  readonly weightDecay?: number | ((variable: string) => number);
  /**
   * Where the decay is added. `gradient`: to the gradient of each rank, before it is compressed (as in Paddle's
   * implementation of the paper), and clipped with it. `update`: to the update that all ranks apply, with the weight
   * that it has there in the long run, 1 ÷ (1 − momentum); nothing of it is held back. Default
   * `gradient`.
   */
  readonly weightDecayAt?: 'gradient' | 'update';
  /** After every so many steps, the hashes of the weights of all ranks are compared. 0: never. Default 1000. */
  readonly verifyEvery?: number;
  /**
   * How many steps each rank takes by itself, with the wrapped optimizer, before the ranks exchange what these have
   * changed. Within such a round the weights of the ranks differ. 0: the ranks exchange the gradients of every step.
   * Default 0. See docs/how-to/local-steps.md.
   */
  readonly localSteps?: number;
  /** Clips the gradient of each local step to this norm, that of all its tensors together. Default: no clipping. */
  readonly localClipNorm?: number;
  /**
   * The gradients of so many steps are added up on each rank, and then the ranks exchange their mean: an update is that
   * of a batch so many times as large. Not with `localSteps`. Default 1. See docs/how-to/model-fit.md#accumulation.
   */
  readonly accumulate?: number;
  /** Applies the mean of what the local steps have changed. */
  readonly outer?: OuterOptions;
  /**
   * 1: the exchange of a step travels while the next gradients are computed, and its update is applied before they are
   * exchanged, one step late. Not in elastic runs, and not with `localSteps`. Default 0.
   */
  readonly overlap?: 0 | 1;
}

/** All options, with their defaults. */
export interface CheckedOptions extends Required<Omit<WrapOptions, 'compression'>> {
  /** Undefined: it is chosen before the first step. */
  readonly compression: Compression | undefined;
  readonly outer: Required<OuterOptions>;
}

const OPTIONS = {
  ...{ compression: true, onNonFinite: true, learningRateRule: true, verifyEvery: true },
  ...{ weightDecay: true, weightDecayAt: true, localSteps: true, localClipNorm: true, outer: true, overlap: true },
  accumulate: true,
} as const satisfies Record<keyof WrapOptions, true>;

/**
 * Checks the options and completes them.
 *
 * @param isElastic Whether the run may go on when ranks are lost.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function checkWrapOptions(options: WrapOptions, isElastic: boolean): CheckedOptions {
  checkOptions('ring.wrap', options, OPTIONS, hintAtName);
  const { compression, onNonFinite = 'error', verifyEvery = 1000, localSteps = 0 } = options;
  const { overlap = 0, localClipNorm = Infinity, accumulate = 1 } = options;
  const { weightDecay = 0, weightDecayAt = 'gradient' } = options;
  checkCompression(compression);
  requireOneOf('onNonFinite', onNonFinite, ['error', 'skip']);
  if (typeof weightDecay !== 'function' && !isDecay(weightDecay)) {
    const words = 'it must be a number, 0 or more, or a function that gives one for the name of a variable.';
    throw invalidArgument(`weightDecay is ${String(weightDecay)}; ${words}`);
  }
  requireOneOf('weightDecayAt', weightDecayAt, ['gradient', 'update']);
  if (!Number.isSafeInteger(localSteps) || localSteps < 0) {
    throw invalidArgument(`localSteps is ${String(localSteps)}; it must be a whole number of steps, or 0 for none.`);
  }
  if (!Number.isSafeInteger(accumulate) || accumulate < 1) {
    throw invalidArgument(`accumulate is ${String(accumulate)}; it must be a whole number of steps, at least 1.`);
  }
  if (accumulate > 1 && localSteps > 0) {
    throw invalidArgument('accumulate is for gradients that are exchanged: leave out localSteps, or accumulate.');
  }
  const other = (['outer', 'localClipNorm'] as const).find(name => options[name] !== undefined);
  if (localSteps === 0 && other !== undefined) {
    throw invalidArgument(`${other} is for local steps: pass localSteps beside it.`);
  }
  if (!(localClipNorm > 0)) {
    throw invalidArgument(`localClipNorm is ${String(localClipNorm)}; it must be a number greater than 0.`);
  }
  const learningRateRule = options.learningRateRule ?? (localSteps > 0 ? 'constant' : 'linear');
  if (localSteps > 0 && learningRateRule === 'linear') {
    throw invalidArgument(
      "learningRateRule: 'linear' is for gradients. With localSteps each rank trains at its own rate: leave it out.",
    );
  }
  if (overlap !== 0 && overlap !== 1) throw invalidArgument(`overlap is ${String(overlap)}; it must be 0 or 1.`);
  if (overlap === 1 && localSteps > 0) {
    throw invalidArgument('overlap: 1 is for gradients that are exchanged in every step: leave out localSteps.');
  }
  if (overlap === 1 && isElastic) {
    throw invalidArgument('overlap: 1 does not work in an elastic run, which may lose a rank while gradients travel.');
  }
  if (compression?.kind === 'dgc' && compression.perHost && isElastic) {
    throw invalidArgument(
      'dgc({ perHost: true }) does not work in an elastic run, in which a host may lose the rank that has its gradient.',
    );
  }
  return {
    ...{
      overlap,
      accumulate,
      compression,
      onNonFinite,
      verifyEvery,
      learningRateRule,
      weightDecay,
      weightDecayAt,
      localSteps,
      localClipNorm,
    },
    outer: checkOuter(options.outer ?? {}),
  };
}

/** The weight decay of a variable, by its name. */
export type DecayOf = (variable: string) => number;

/** The weight decay that is added there. Null: none. */
export function weightDecayOf(
  { weightDecay, weightDecayAt }: Pick<CheckedOptions, 'weightDecay' | 'weightDecayAt'>,
  at: CheckedOptions['weightDecayAt'],
): DecayOf | null {
  if (weightDecayAt !== at || weightDecay === 0) return null;
  return typeof weightDecay === 'number' ? () => weightDecay : name => checkedDecay(weightDecay, name);
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` if the function gives no number of 0 or more. */
export function checkedDecay(weightDecay: DecayOf, name: string): number {
  const decay: unknown = weightDecay(name);
  if (isDecay(decay)) return decay;
  throw invalidArgument(`weightDecay('${name}') is ${inspect(decay)}; it must be a number, 0 or more.`);
}

function isDecay(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < Infinity;
}

function checkOuter(options: OuterOptions): Required<OuterOptions> {
  checkOptions('outer', options, { learningRate: true, momentum: true, nesterov: true });
  const { learningRate = 0.7, momentum = 0.9, nesterov = true } = options;
  if (!(learningRate > 0 && learningRate < Infinity)) {
    throw invalidArgument(`outer.learningRate is ${String(learningRate)}; it must be a number greater than 0.`);
  }
  if (!(momentum >= 0 && momentum < 1)) {
    throw invalidArgument(`outer.momentum is ${String(momentum)}; it must be at least 0, and less than 1.`);
  }
  requireBoolean('outer.nesterov', nesterov);
  return { learningRate, momentum, nesterov };
}

import { checkOptions } from '../check-options';
import { type ChosenDgc, dgc, type DgcOptions } from './dgc-options';

/** The options of {@link gradientDropping}: as for {@link dgc}. */
export type GradientDroppingOptions = Pick<DgcOptions, 'sparsity' | 'clipNorm' | 'clipAt' | 'denseBelow' | 'values'>;

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

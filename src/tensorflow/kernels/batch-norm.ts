import { tf } from '../tfjs';
import { type ComposedKernel, repeats } from './kernel';

/**
 * Batch normalization. An operation without a scale or an offset gets one that changes nothing, because the backward
 * pass of tfjs fails at inputs that are undefined. The kernels of wasm and cpu broadcast statistics
 * only by repeating their values.
 */
export const fusedBatchNorm: ComposedKernel<tf.FusedBatchNormAttrs> = {
  name: tf.FusedBatchNorm,
  prepare(inputs) {
    inputs['scale'] ??= tf.onesLike(inputs['mean']!);
    inputs['offset'] ??= tf.zerosLike(inputs['mean']!);
  },
  compute(inputs, { varianceEpsilon }, stock) {
    const { x, mean, variance, scale, offset } = inputs;
    if (repeats(mean!.shape, x!.shape)) return stock();
    const factors = tf.mul(scale!, tf.rsqrt(tf.add(variance!, varianceEpsilon)));
    return tf.add(tf.mul(tf.sub(x!, mean!), factors), offset!);
  },
};

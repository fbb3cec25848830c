import { tf } from '../tfjs';
import { type ComposedKernel, repeats } from './kernel';

/** wasm's kernel copies the numbers: of a bool, which has 8 bits, −1 becomes 255, and 0.5 becomes 0. */
export const cast: ComposedKernel<tf.CastAttrs> = {
  name: tf.Cast,
  compute(inputs, { dtype }, stock) {
    return dtype === 'bool' ? tf.notEqual(inputs['x']!, 0) : stock();
  },
};

/** wasm's kernel adds the wrong elements of the bias, except to the product of two matrices that are not transposed. */
export const fusedMatMul: ComposedKernel<tf._FusedMatMulAttrs> = {
  name: tf._FusedMatMul,
  compute(inputs, { transposeA, transposeB, activation, leakyreluAlpha }, stock) {
    const { a, b, bias, preluActivationWeights } = inputs;
    const isPlain = !transposeA && !transposeB && [a!, b!].every(({ shape }) => shape.slice(0, -2).every(n => n === 1));
    if (isPlain) return stock();
    const product = tf.matMul(a!, b!, transposeA, transposeB);
    const sums = bias == null ? product : tf.add(product, bias);
    return tf.backend_util.applyActivation(sums, activation, preluActivationWeights, leakyreluAlpha);
  },
};

/** The kernel of wasm broadcasts `alpha` only by repeating its values. */
export const prelu: ComposedKernel<object> = {
  name: tf.Prelu,
  compute(inputs, _, stock) {
    const x = inputs['x']!;
    const alpha = inputs['alpha']!;
    if (repeats(alpha.shape, x.shape)) return stock();
    return tf.add(tf.relu(x), tf.mul(alpha, tf.minimum(x, 0)));
  },
};

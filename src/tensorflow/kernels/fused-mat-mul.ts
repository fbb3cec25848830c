import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

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

import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * Matrix products with a transposed factor, such as both gradients of every dense layer.
 *
 * It replaces the stock kernel, whose results are correct, because only its untransposed product uses XNNPACK; any
 * other is a scalar loop, ten to twenty times slower. So the factors are transposed first, or, if that moves fewer
 * elements, the product: `a·bᵀ = (b·aᵀ)ᵀ`, `aᵀ·bᵀ = (b·a)ᵀ`. The stock kernel still computes products of many matrices.
 */
export const batchMatMul: ComposedKernel<tf.BatchMatMulAttrs> = {
  name: tf.BatchMatMul,
  compute(inputs, { transposeA, transposeB }, stock) {
    const [a, b] = [inputs['a']!, inputs['b']!];
    const isOneProduct = isOneMatrix(a) && isOneMatrix(b);
    if (!(transposeA || transposeB) || !isOneProduct) return stock();
    const outShape = [
      ...tf.broadcast_util.assertAndGetBroadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2)),
      a.shape.at(transposeA ? -1 : -2)!,
      b.shape.at(transposeB ? -2 : -1)!,
    ];
    return tf.reshape(multiply(asMatrix(a), asMatrix(b), transposeA, transposeB), outShape);
  },
};

function multiply(a: tf.Tensor2D, b: tf.Tensor2D, transposeA: boolean, transposeB: boolean): tf.Tensor {
  if (transposeA && transposeB) return tf.transpose(tf.matMul(b, a));
  if (transposeA) return tf.matMul(tf.transpose(a), b);
  const transposesB = b.size <= a.size + a.shape[0] * b.shape[0];
  return transposesB ? tf.matMul(a, tf.transpose(b)) : tf.transpose(tf.matMul(b, tf.transpose(a)));
}

function isOneMatrix(tensor: tf.Tensor): boolean {
  return tensor.shape.slice(0, -2).every(size => size === 1);
}

function asMatrix(tensor: tf.Tensor): tf.Tensor2D {
  return tf.reshape(tensor, tensor.shape.slice(-2) as [number, number]);
}

import { tf } from '../tfjs';
import { type ComposedKernel, repeats, type Stock } from './kernel';

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
    if (!(isOneMatrix(a) && isOneMatrix(b))) return withBroadcast(a, b, stock);
    if (!(transposeA || transposeB)) return stock();
    const outShape = [...batchOf(a, b), a.shape.at(transposeA ? -1 : -2)!, b.shape.at(transposeB ? -2 : -1)!];
    return tf.reshape(multiply(asMatrix(a), asMatrix(b), transposeA, transposeB), outShape);
  },
};

/** Matrix products on the CPU backend: the stock kernel, but for batches that it does not broadcast rightly. */
export const broadcastBatchMatMul: ComposedKernel<tf.BatchMatMulAttrs> = {
  name: tf.BatchMatMul,
  compute: (inputs, _, stock) => withBroadcast(inputs['a']!, inputs['b']!, stock),
};

/** The stock kernels of wasm and cpu broadcast a batch only by repeating its matrices. */
function withBroadcast(a: tf.Tensor, b: tf.Tensor, stock: Stock<tf.BatchMatMulAttrs>): tf.Tensor {
  const batch = batchOf(a, b);
  if ([a, b].every(({ shape }) => repeats(shape.slice(0, -2), batch))) return stock();
  const inFull = (matrices: tf.Tensor) => tf.broadcastTo(matrices, [...batch, ...matrices.shape.slice(-2)]);
  return stock({ inputs: { a: inFull(a), b: inFull(b) } });
}

function batchOf(a: tf.Tensor, b: tf.Tensor): number[] {
  return tf.broadcast_util.assertAndGetBroadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
}

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

import { tf } from '../tfjs';
import { correctGradient, sumTo } from './gradient';

/**
 * Corrects the gradient of a kernel whose inputs `a` and `b` are broadcast: that of tfjs 4.22 has the shape of the
 * result, which its backward pass refuses.
 */
export function correctBroadcastGradient(kernelName: string): void {
  correctGradient(kernelName, stock => (dy, saved, attributes) => {
    const { a, b } = stock(dy, saved, attributes);
    return { a: () => sumTo(a!(), saved[0]!.shape), b: () => sumTo(b!(), saved[1]!.shape) };
  });
}

/**
 * Corrects the gradient of batch normalization for statistics that are broadcast: that of tfjs 4.22 knows only the
 * shape of `x` itself and that of its channels. The scale is there in any case: see kernels/batch-norm.ts.
 */
export function correctBatchNormGradient(): void {
  correctGradient<tf.FusedBatchNormAttrs>(tf.FusedBatchNorm, stock => (dy, saved, attributes) => {
    const [x, mean, variance, scale] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
    const { shape } = mean;
    if (mean.rank === 1 || mean.size === x.size) return stock(dy, saved, attributes);
    const inverse = tf.rsqrt(tf.add(variance, attributes.varianceEpsilon));
    const sumOfScaled = () => sumTo(tf.mul(dy, tf.sub(x, mean)), shape);
    return {
      x: () => tf.mul(dy, tf.mul(scale, inverse)),
      mean: () => tf.mul(sumTo(dy, shape), tf.neg(tf.mul(scale, inverse))),
      variance: () => tf.mul(sumOfScaled(), tf.mul(tf.mul(scale, -0.5), tf.pow(inverse, 3))),
      scale: () => tf.mul(sumOfScaled(), inverse),
      offset: () => sumTo(dy, shape),
    };
  });
}

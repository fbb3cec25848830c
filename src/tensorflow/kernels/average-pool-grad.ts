import { tf } from '../tfjs';
import type { ComposedKernel, Inputs } from './kernel';

/**
 * The gradients of average pooling. The kernels of tfjs divide every `dy` by the size of the window, but the average of
 * a window at the border is taken over its pixels within the image alone. So `dy` is enlarged there before.
 */
export const avgPoolGrad: ComposedKernel<tf.AvgPoolGradAttrs> = {
  name: tf.AvgPoolGrad,
  compute(inputs, { filterSize, strides, pad }, stock) {
    const x = inputs['input'] as tf.Tensor4D;
    const info = tf.backend_util.computePool2DInfo(x.shape, filterSize, strides, 1, pad);
    return stock({ inputs: enlarge(inputs, [rowsOf(info), columnsOf(info)]) });
  },
};

/** See {@link avgPoolGrad}. */
export const avgPool3DGrad: ComposedKernel<tf.AvgPool3DGradAttrs> = {
  name: tf.AvgPool3DGrad,
  compute(inputs, { filterSize, strides, pad, dimRoundingMode }, stock) {
    const x = inputs['input'] as tf.Tensor5D;
    const info = tf.backend_util.computePool3DInfo(x.shape, filterSize, strides, 1, pad, dimRoundingMode);
    const { inDepth, outDepth, strideDepth, filterDepth, padInfo } = info;
    const layers = {
      size: inDepth,
      windows: outDepth,
      stride: strideDepth,
      window: filterDepth,
      before: padInfo.front,
    };
    return stock({ inputs: enlarge(inputs, [layers, rowsOf(info), columnsOf(info)]) });
  },
};

/** How windows lie on one axis of an image. */
interface Axis {
  readonly size: number;
  readonly windows: number;
  readonly stride: number;
  readonly window: number;
  /** The padding before the first pixel. */
  readonly before: number;
}

type Info = tf.backend_util.Conv2DInfo | tf.backend_util.Conv3DInfo;

function rowsOf({ inHeight, outHeight, strideHeight, filterHeight, padInfo }: Info): Axis {
  return { size: inHeight, windows: outHeight, stride: strideHeight, window: filterHeight, before: padInfo.top };
}

function columnsOf({ inWidth, outWidth, strideWidth, filterWidth, padInfo }: Info): Axis {
  return { size: inWidth, windows: outWidth, stride: strideWidth, window: filterWidth, before: padInfo.left };
}

/** The inputs, with `dy` times the size of each window ÷ its pixels within the image. */
function enlarge(inputs: Inputs, axes: readonly Axis[]): Inputs {
  let dy = inputs['dy']!;
  axes.forEach(({ size, windows, stride, window, before }, axis) => {
    const factors = Array.from({ length: windows }, (_, i) => {
      const first = i * stride - before;
      return window / Math.max(1, Math.min(size, first + window) - Math.max(0, first));
    });
    if (factors.every(factor => factor === 1)) return;
    const shape = dy.shape.map((_, i) => (i === axis + 1 ? windows : 1));
    dy = tf.mul(dy, tf.tensor(factors, shape, 'float32'));
  });
  return { ...inputs, dy };
}

import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';
import { padOrCrop, spread } from './spatial';

/**
 * If {@link conv2DBackpropInput} needs so many times more multiplications than the stock kernel, a scalar loop, the
 * stock kernel is faster. Measured: between 12 and 25.
 */
const WASTE_LIMIT = 16;

/**
 * The gradient of a convolution with respect to its input, and the forward pass of `conv2dTranspose`: a convolution
 * of `dy`, its pixels spread by the strides, with the filter rotated and its channels swapped.
 *
 * It replaces the stock kernel, whose results are correct, because that one is up to twenty times slower than this use
 * of the forward kernel, and would take most of the time of a training step.
 */
export const conv2DBackpropInput: ComposedKernel<tf.Conv2DBackpropInputAttrs> = {
  name: tf.Conv2DBackpropInput,
  compute(inputs, { strides, pad, dataFormat, dimRoundingMode, inputShape }, stock) {
    const dy = inputs['dy'] as tf.Tensor4D;
    const filter = inputs['filter'] as tf.Tensor4D;
    if (dataFormat !== 'NHWC') return stock();
    const info = tf.backend_util.computeConv2DInfo(
      inputShape, filter.shape, strides, 1, pad, dimRoundingMode, false, 'channelsLast',
    ); // prettier-ignore
    const { inHeight, inWidth, outHeight, outWidth, filterHeight, filterWidth } = info;
    const stride: [number, number] = [info.strideHeight, info.strideWidth];

    if (filterHeight === 1 && filterWidth === 1) {
      // Spread after the product, not before: no multiplication is wasted on zeros.
      const product = spread(tf.conv2d(dy, tf.transpose(filter, [0, 1, 3, 2]), 1, 'valid'), stride);
      const { top, left } = info.padInfo;
      const bottom = inHeight + top - product.shape[1];
      const right = inWidth + left - product.shape[2];
      return padOrCrop(product, { top: -top, bottom, left: -left, right });
    }
    if (inHeight * inWidth > WASTE_LIMIT * outHeight * outWidth) return stock();
    const top = filterHeight - 1 - info.padInfo.top;
    const left = filterWidth - 1 - info.padInfo.left;
    const bottom = inHeight + filterHeight - 1 - top - outHeight * stride[0];
    const right = inWidth + filterWidth - 1 - left - outWidth * stride[1];
    const turned = tf.transpose(tf.reverse4d(filter, [0, 1]), [0, 1, 3, 2]);
    return tf.conv2d(padOrCrop(spread(dy, stride), { top, bottom, left, right }), turned, 1, 'valid');
  },
};

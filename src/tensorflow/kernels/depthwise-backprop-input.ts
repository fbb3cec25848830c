import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';
import { padOrCrop, spread } from './spatial';

/**
 * The gradient of a depthwise convolution (filter [KH,KW,C,M]) with respect to its input: a depthwise convolution of
 * `dy` [N,OH,OW,C·M], its pixels spread by the strides, with the rotated filter, in which each of the C·M channels has
 * its own part. Then the M channels that came from one are summed.
 */
export const depthwiseBackpropInput: ComposedKernel<tf.DepthwiseConv2dNativeBackpropInputAttrs> = {
  name: tf.DepthwiseConv2dNativeBackpropInput,
  compute(inputs, { strides, dilations, pad, dimRoundingMode, inputShape }) {
    const dy = inputs['dy'] as tf.Tensor4D;
    const filter = inputs['filter'] as tf.Tensor4D;
    const info = tf.backend_util.computeConv2DInfo(
      inputShape, filter.shape, strides, dilations, pad, dimRoundingMode, true,
    ); // prettier-ignore
    const { inHeight, inWidth, outHeight, outWidth, strideHeight, strideWidth } = info;
    const top = info.effectiveFilterHeight - 1 - info.padInfo.top;
    const left = info.effectiveFilterWidth - 1 - info.padInfo.left;
    const bottom = inHeight + info.effectiveFilterHeight - 1 - top - outHeight * strideHeight;
    const right = inWidth + info.effectiveFilterWidth - 1 - left - outWidth * strideWidth;
    const padded = padOrCrop(spread(dy, [strideHeight, strideWidth]), { top, bottom, left, right });

    const [filterHeight, filterWidth, channels, multiplier] = filter.shape;
    const turned = tf.reshape(tf.reverse4d(filter, [0, 1]), [filterHeight, filterWidth, channels * multiplier, 1]);
    const dilation: [number, number] = [info.dilationHeight, info.dilationWidth];
    const products = tf.depthwiseConv2d(padded, turned as tf.Tensor4D, 1, 'valid', 'NHWC', dilation);
    if (multiplier === 1) return products;
    return tf.sum(tf.reshape(products, [info.batchSize, inHeight, inWidth, channels, multiplier]), 4);
  },
};

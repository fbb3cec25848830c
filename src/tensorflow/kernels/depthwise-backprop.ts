import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';
import { padOrCrop, spread } from './spatial';

/**
 * The gradient of a depthwise convolution with respect to its filter [KH,KW,C,M]:
 * `dw[i,j,c,m] = Σ_{n,p,q} x[n, p·stride+i·dilation, q·stride+j·dilation, c] · dy[n,p,q,c·M+m]`.
 *
 * That is a depthwise convolution, too, over one image that has all channels of all images, x [1,H,W,N·C], with `dy` as
 * its filter [OH,OW,N·C,M]; strides and dilations are swapped. Then the results of the images are summed.
 */
export const depthwiseBackpropFilter: ComposedKernel<tf.DepthwiseConv2dNativeBackpropFilterAttrs> = {
  name: tf.DepthwiseConv2dNativeBackpropFilter,
  compute(inputs, { strides, dilations, pad, dimRoundingMode, filterShape }) {
    const x = inputs['x'] as tf.Tensor4D;
    const dy = inputs['dy'] as tf.Tensor4D;
    const info = tf.backend_util.computeConv2DInfo(
      x.shape, filterShape, strides, dilations, pad, dimRoundingMode, true,
    ); // prettier-ignore
    const { batchSize, inHeight, inWidth, inChannels, outHeight, outWidth, strideHeight, strideWidth } = info;
    const { top, left } = info.padInfo;
    const bottom = (outHeight - 1) * strideHeight + info.effectiveFilterHeight - top - inHeight;
    const right = (outWidth - 1) * strideWidth + info.effectiveFilterWidth - left - inWidth;
    const padded = padOrCrop(x, { top, bottom, left, right });
    const [, height, width] = padded.shape;
    const [filterHeight, filterWidth, , multiplier] = filterShape;
    const groups = batchSize * inChannels;

    const image = tf.reshape(tf.transpose(padded, [1, 2, 0, 3]), [1, height, width, groups]) as tf.Tensor4D;
    const pixels = tf.reshape(dy, [batchSize, outHeight * outWidth, inChannels * multiplier]);
    const filterSize: [number, number, number, number] = [outHeight, outWidth, groups, multiplier];
    const filter: tf.Tensor4D = tf.reshape(tf.transpose(pixels, [1, 0, 2]), filterSize);
    // tf.depthwiseConv2d refuses strides together with dilations, so the forward pass did not have both.
    const products = tf.depthwiseConv2d(
      image, filter, [info.dilationHeight, info.dilationWidth], 'valid', 'NHWC', [strideHeight, strideWidth],
    ); // prettier-ignore
    return tf.sum(tf.reshape(products, [filterHeight, filterWidth, batchSize, inChannels, multiplier]), 2);
  },
};

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

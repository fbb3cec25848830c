import { tf } from '../tfjs';
import { requireChannelsLast } from './channels-last';
import type { ComposedKernel } from './kernel';
import { padOrCrop, subsample } from './spatial';

/**
 * The gradient of a convolution with respect to its filter:
 * `dw[i,j,c,f] = Σ_{n,p,q} x[n, p·stride+i, q·stride+j, c] · dy[n,p,q,f]`.
 *
 * That is a convolution in which batch and channels of `x` are swapped, `dy` is the filter, and the strides dilate it:
 * x [C,H,W,N] ∗ dy [OH,OW,N,F] → [C,KH,KW,F]. A 1×1 filter is one matrix product over all pixels, which is much faster.
 */
export const conv2DBackpropFilter: ComposedKernel<tf.Conv2DBackpropFilterAttrs> = {
  name: tf.Conv2DBackpropFilter,
  compute(inputs, { strides, pad, dataFormat, dimRoundingMode, filterShape }) {
    requireChannelsLast(tf.Conv2DBackpropFilter, dataFormat);
    const x = inputs['x'] as tf.Tensor4D;
    const dy = inputs['dy'] as tf.Tensor4D;
    const info = tf.backend_util.computeConv2DInfo(
      x.shape, filterShape, strides, 1, pad, dimRoundingMode, false, 'channelsLast',
    ); // prettier-ignore
    const { top, left } = info.padInfo;
    const { inHeight, inWidth, outHeight, outWidth, filterHeight, filterWidth, inChannels, outChannels } = info;
    const stride: [number, number] = [info.strideHeight, info.strideWidth];

    if (filterHeight === 1 && filterWidth === 1) {
      const bottom = outHeight * stride[0] - top - inHeight;
      const right = outWidth * stride[1] - left - inWidth;
      const pixels = subsample(padOrCrop(x, { top, bottom, left, right }), stride);
      const product = tf.matMul(tf.reshape(pixels, [-1, inChannels]), tf.reshape(dy, [-1, outChannels]), true);
      return tf.reshape(product, filterShape);
    }
    const bottom = (outHeight - 1) * stride[0] + filterHeight - top - inHeight;
    const right = (outWidth - 1) * stride[1] + filterWidth - left - inWidth;
    const images = tf.transpose(padOrCrop(x, { top, bottom, left, right }), [3, 1, 2, 0]);
    const filter = tf.transpose(dy, [1, 2, 0, 3]);
    return tf.transpose(tf.conv2d(images, filter, 1, 'valid', 'NHWC', stride), [1, 2, 0, 3]);
  },
};

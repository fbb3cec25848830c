import { tf } from '../tfjs';
import { invalidArgument } from '../../errors';
import type { ComposedKernel } from './kernel';
import { padOrCrop, spread, subsample } from './spatial';

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
    if (dataFormat !== 'NHWC') {
      // The forward convolution of wasm does not support NCHW, either.
      throw invalidArgument(
        `${tf.Conv2DBackpropFilter} on the wasm backend needs dataFormat 'NHWC' (channels last), not '${dataFormat}'.`,
      );
    }
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

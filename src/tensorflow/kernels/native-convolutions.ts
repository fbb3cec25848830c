import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * The gradient of a convolution with respect to its input. It is also the forward pass of a transposed convolution.
 *
 * oneDNN 3.7, which TensorFlow 2.21 uses, gives wrong numbers on processors with AVX-512 if the convolution has one
 * input channel and one output channel. This kernel adds a second output channel, which is zero, and so avoids that
 * code.
 */
export const oneChannelBackpropInput: ComposedKernel<tf.Conv2DBackpropInputAttrs> = {
  name: tf.Conv2DBackpropInput,
  compute(inputs, { dataFormat }, stock) {
    return stock({ inputs: withTwoOutputs(inputs, dataFormat === 'NCHW' ? 1 : 3) });
  },
};

/** {@link oneChannelBackpropInput} in three dimensions. */
export const oneChannelBackpropInput3D: ComposedKernel<tf.Conv3DBackpropInputV2Attrs> = {
  name: tf.Conv3DBackpropInputV2,
  compute(inputs, _, stock) {
    return stock({ inputs: withTwoOutputs(inputs, 4) });
  },
};

/** The inputs, with a second output channel of zeros if the filter has one channel and one output. */
function withTwoOutputs(inputs: tf.NamedTensorMap, channelAxis: number): tf.NamedTensorMap {
  const filter = inputs['filter']!;
  const [channels, outputs] = filter.shape.slice(-2);
  if (channels !== 1 || outputs !== 1) return inputs;
  const double = (x: tf.Tensor, axis: number) => tf.concat([x, tf.zerosLike(x)], axis);
  return { dy: double(inputs['dy']!, channelAxis), filter: double(filter, filter.rank - 1) };
}

/**
 * The gradient of a convolution with respect to its filter.
 *
 * If the filter has one pixel and the convolution has strides, oneDNN may write beyond its buffer: it does so if the
 * image has fewer channels than a vector register has numbers. Then it hangs, crashes or gives wrong numbers (oneDNN
 * issue 6035). This kernel takes the pixels that the strides select, and computes the same gradient without strides.
 */
export const onePixelBackpropFilter: ComposedKernel<tf.Conv2DBackpropFilterAttrs> = {
  name: tf.Conv2DBackpropFilter,
  compute(inputs, { strides, filterShape, dataFormat }, stock) {
    const [stepHeight, stepWidth] = typeof strides === 'number' ? [strides, strides] : strides;
    const onePixel = filterShape[0] === 1 && filterShape[1] === 1;
    if (!onePixel || (stepHeight === 1 && stepWidth === 1)) return stock();
    const x = inputs['x']!;
    const steps = dataFormat === 'NCHW' ? [1, 1, stepHeight, stepWidth] : [1, stepHeight, stepWidth, 1];
    const hit = tf.stridedSlice(x, [0, 0, 0, 0], x.shape, steps);
    return stock({ inputs: { ...inputs, x: hit }, attributes: { strides: 1 } });
  },
};

import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * The gradient of a convolution of one channel to one with respect to its input, and the forward pass of such a
 * transposed convolution: computed as of one channel to two, of which the second is zero. oneDNN 3.7 (TensorFlow 2.21)
 * gives wrong numbers for one channel to one on processors with AVX-512.
 */
export const oneChannelBackpropInput: ComposedKernel<tf.Conv2DBackpropInputAttrs> = {
  name: tf.Conv2DBackpropInput,
  compute(inputs, { dataFormat }, stock) {
    return stock({ inputs: withTwoOutputs(inputs, dataFormat === 'NCHW' ? 1 : 3) });
  },
};

/** The same in three dimensions. */
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
 * The gradient of a strided convolution with a filter of one pixel with respect to the filter: that of the pixels that
 * the strides hit, without strides. oneDNN up to 3.12 writes beyond its buffer if the image has fewer channels than a
 * vector register has numbers, and then hangs, crashes or gives wrong numbers (oneDNN issue 6035).
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

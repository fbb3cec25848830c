import { tf } from '../tfjs';
import type { ComposedKernel, Inputs } from './kernel';

type Sizes = number | readonly number[];

interface VolumeAttributes {
  readonly strides: Sizes;
  readonly pad: 'same' | 'valid' | number;
  readonly dilations?: Sizes;
  /** Of a pooling. */
  readonly filterSize?: Sizes;
  /** Of the gradient with respect to a filter. */
  readonly filterShape?: readonly number[];
  /** Of the gradient of a convolution with respect to its input. */
  readonly inputShape?: readonly number[];
}

/** The kernels of convolutions and poolings in three dimensions that {@link withinWindows} corrects. */
export const VOLUME_KERNELS = [
  ...[tf.Conv3D, tf.Conv3DBackpropFilterV2, tf.Conv3DBackpropInputV2],
  ...[tf.AvgPool3D, tf.AvgPool3DGrad, tf.MaxPool3D, tf.MaxPool3DGrad],
];

/**
 * A convolution or pooling in three dimensions, or a gradient of one. tfjs 4.22 shifts the windows where the padding is
 * `same` and a stride is larger than the filter, because it computes a negative padding. This kernel first cuts off
 * what lies behind the last window. The gradient there is zero.
 */
export function withinWindows(name: string): ComposedKernel<VolumeAttributes> {
  const givesInput = [tf.Conv3DBackpropInputV2, tf.AvgPool3DGrad, tf.MaxPool3DGrad].includes(name);
  return {
    name,
    compute(inputs, attributes, stock) {
      const key = inputs['x'] === undefined ? 'input' : 'x';
      const shape = attributes.inputShape ?? inputs[key]!.shape;
      const used = usedShape(shape, inputs, attributes);
      if (tf.util.arraysEqual([...shape], used)) return stock();
      const volume = inputs[key];
      const result = stock({
        inputs: volume === undefined ? inputs : { ...inputs, [key]: tf.slice(volume, [0, 0, 0, 0, 0], used) },
        attributes: attributes.inputShape === undefined ? {} : { inputShape: used },
      });
      if (!givesInput) return result;
      return tf.pad(
        result,
        shape.map((size, axis) => [0, size - used[axis]!]),
      );
    },
  };
}

/** The shape of what the windows cover, from the first layer, row and column on. */
function usedShape(shape: readonly number[], { filter }: Inputs, attributes: VolumeAttributes): number[] {
  const { strides, pad, dilations = 1, filterSize, filterShape } = attributes;
  const sizes = filterSize ?? filterShape ?? filter!.shape;
  const at = (values: Sizes, axis: number) => (typeof values === 'number' ? values : values[axis]!);
  return shape.map((size, i) => {
    const axis = i - 1;
    if (pad !== 'same' || axis < 0 || axis > 2) return size;
    const window = (at(sizes, axis) - 1) * at(dilations, axis) + 1;
    const stride = at(strides, axis);
    return Math.min(size, Math.max(0, (Math.ceil(size / stride) - 1) * stride + window));
  });
}

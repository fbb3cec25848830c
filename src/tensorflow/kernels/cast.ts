import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/** wasm's kernel copies the numbers: of a bool, which has 8 bits, −1 becomes 255, and 0.5 becomes 0. */
export const cast: ComposedKernel<tf.CastAttrs> = {
  name: tf.Cast,
  compute(inputs, { dtype }, stock) {
    return dtype === 'bool' ? tf.notEqual(inputs['x']!, 0) : stock();
  },
};

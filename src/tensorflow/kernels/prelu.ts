import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';
import { repeats } from './repeats';

/** The kernel of wasm broadcasts `alpha` only by repeating its values. */
export const prelu: ComposedKernel<object> = {
  name: tf.Prelu,
  compute(inputs, _, stock) {
    const x = inputs['x']!;
    const alpha = inputs['alpha']!;
    if (repeats(alpha.shape, x.shape)) return stock();
    return tf.add(tf.relu(x), tf.mul(alpha, tf.minimum(x, 0)));
  },
};

import { tf } from '../tfjs';
import type { Gradient } from './gradient';

/** The gradient of `tf.einsum`. tfjs 4.22 has none, so attention layers that use einsum could not be trained. */
export const einsumGradient: Gradient<tf.EinsumAttrs> = {
  kernelName: tf.Einsum,
  saveAllInputs: true,
  derive(dy, saved, { equation }) {
    const [terms, result] = equation.replace(/\s/g, '').split('->') as [string, string];
    const labels = terms.split(',');
    const gradientOf = (i: number) => () => {
      const others = saved.filter((_, j) => j !== i);
      const otherLabels = labels.filter((_, j) => j !== i);
      return derive(dy, result, others, otherLabels, saved[i]!.shape, labels[i]!);
    };
    return Object.fromEntries(saved.map((_, i) => [i, gradientOf(i)]));
  },
};

/** `dy` times the other factor, summed to the labels of this one, and broadcast over labels that only it has. */
function derive(
  dy: tf.Tensor,
  result: string,
  others: tf.Tensor[],
  otherLabels: string[],
  shape: number[],
  labels: string,
): tf.Tensor {
  const known = [...labels].filter(label => [result, ...otherLabels].some(term => term.includes(label))).join('');
  const product = tf.einsum(`${[result, ...otherLabels].join(',')}->${known}`, dy, ...others);
  const expanded = [...labels].map((label, axis) => (known.includes(label) ? shape[axis]! : 1));
  return tf.broadcastTo(tf.reshape(product, expanded), shape);
}

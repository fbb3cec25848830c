import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * `tf.einsum` of one or two tensors, as one matrix product over the common labels. (The CPU backend multiplies every
 * element with every other, and holds all products in memory at once.) The result of integers is int32.
 */
export const einsum: ComposedKernel<tf.EinsumAttrs> = {
  name: tf.Einsum,
  compute(inputs, { equation }) {
    const tensors = Object.values(inputs);
    const { allDims, idDims } = tf.backend_util.decodeEinsumEquation(equation, tensors.length);
    tf.backend_util.checkEinsumDimSizes(allDims.length, idDims, tensors);
    const [terms, result] = equation.replace(/\s/g, '').split('->') as [string, string];
    const factors = terms.split(',').map((labels, i) => ({ labels, tensor: tf.cast(tensors[i]!, 'float32') }));
    const [a, b] = factors as [Labelled, Labelled | undefined];
    const product = b === undefined ? sumAllBut(a, result) : contract(a, b, result);
    const ordered = arrange(product, result);
    return tensors.some(tensor => tensor.dtype === 'float32') ? ordered : tf.cast(ordered, 'int32');
  },
};

/** A tensor with one letter for each of its axes. */
interface Labelled {
  readonly labels: string;
  readonly tensor: tf.Tensor;
}

/** The sum over all labels except `kept`. */
function sumAllBut({ labels, tensor }: Labelled, kept: string): Labelled {
  const summed = [...labels].flatMap((label, axis) => (kept.includes(label) ? [] : [axis]));
  return {
    labels: [...labels].filter(label => kept.includes(label)).join(''),
    tensor: summed.length > 0 ? tf.sum(tensor, summed) : tensor,
  };
}

/** The product of two tensors, summed over the labels that the result does not have. */
function contract(first: Labelled, second: Labelled, result: string): Labelled {
  const a = sumAllBut(first, second.labels + result);
  const b = sumAllBut(second, first.labels + result);
  const common = [...a.labels].filter(label => b.labels.includes(label));
  const batch = common.filter(label => result.includes(label)).join('');
  const inner = common.filter(label => !result.includes(label)).join('');
  const rows = [...a.labels].filter(label => !b.labels.includes(label)).join('');
  const columns = [...b.labels].filter(label => !a.labels.includes(label)).join('');

  const sizes = new Map([a, b].flatMap(({ labels, tensor }) => [...labels].map((l, i) => [l, tensor.shape[i]!])));
  const shapeOf = (labels: string) => [...labels].map(label => sizes.get(label)!);
  const sizeOf = (labels: string) => tf.util.sizeFromShape(shapeOf(labels));
  const left = tf.reshape(arrange(a, batch + rows + inner), [sizeOf(batch), sizeOf(rows), sizeOf(inner)]);
  const right = tf.reshape(arrange(b, batch + inner + columns), [sizeOf(batch), sizeOf(inner), sizeOf(columns)]);
  const labels = batch + rows + columns;
  return { labels, tensor: tf.reshape(tf.matMul(left, right), shapeOf(labels)) };
}

/** The tensor with its axes in the order of `labels`. */
function arrange({ labels: from, tensor }: Labelled, labels: string): tf.Tensor {
  return tf.transpose(
    tensor,
    [...labels].map(label => from.indexOf(label)),
  );
}

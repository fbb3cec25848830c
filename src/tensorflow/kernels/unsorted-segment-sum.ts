import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * The sum of the rows of `x` [n, …] that have the same segment id, for each of `numSegments`: the gradient of
 * `gather`, and so of an embedding. It scatters each row once; the CPU backend passes over all of `x` once for each
 * segment. As there, a segment without rows is zero, rows with an id out of range are left out, and the result is
 * float32.
 */
export const unsortedSegmentSum: ComposedKernel<tf.UnsortedSegmentSumAttrs> = {
  name: tf.UnsortedSegmentSum,
  compute(inputs, { numSegments }) {
    const x = tf.cast(inputs['x']!, 'float32');
    const segmentIds = inputs['segmentIds'] as tf.Tensor1D;
    const outOfRange = segmentIds.dataSync().some(id => id < 0 || id >= numSegments);
    // The scatter kernel does not check ids. So rows with an id out of range go to an additional segment.
    const ids = outOfRange ? toSpareSegment(segmentIds, numSegments) : segmentIds;
    const shape = [outOfRange ? numSegments + 1 : numSegments, ...x.shape.slice(1)];
    const sums = tf.scatterND(tf.reshape(ids, [-1, 1]), x, shape);
    return outOfRange ? tf.slice(sums, 0, numSegments) : sums;
  },
};

function toSpareSegment(segmentIds: tf.Tensor1D, numSegments: number): tf.Tensor1D {
  const ids = segmentIds.dataSync().map(id => (id < 0 || id >= numSegments ? numSegments : id));
  return tf.tensor1d(ids, 'int32');
}

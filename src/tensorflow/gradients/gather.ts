import { tf } from '../tfjs';
import type { Gradient } from './gradient';

/**
 * The gradient of `tf.gather`: each part of `dy` is added where it came from. All batches are one table, in which the
 * rows of a batch begin after those of the one before. (That of tfjs 4.22 fails for several `batchDims`.)
 */
export const gatherGradient: Gradient<tf.GatherV2Attrs> = {
  kernelName: tf.GatherV2,
  inputsToSave: ['x', 'indices'],
  derive(dy, saved, { axis, batchDims }) {
    const [x, indices] = saved as [tf.Tensor, tf.Tensor];
    const parsedAxis = tf.util.parseAxisParam(axis, x.shape)[0]!;
    const { batchSize, outerSize, dimSize, sliceSize } = tf.backend_util.segment_util.collectGatherOpShapeInfo(
      x,
      indices,
      parsedAxis,
      batchDims,
    );
    const swapped = (tensor: tf.Tensor, shape: number[]): tf.Tensor => {
      const parts = tf.reshape(tensor, shape);
      return outerSize === 1 ? parts : tf.transpose(parts, [0, 2, 1, 3]);
    };
    return {
      x: () => {
        const perBatch = indices.size / batchSize;
        const rows = tf.reshape(swapped(dy, [batchSize, outerSize, perBatch, sliceSize]), [indices.size, -1]);
        const begins = tf.mul(tf.range(0, batchSize, 1, 'int32'), tf.scalar(dimSize, 'int32'));
        const ids = tf.add(tf.reshape(indices, [batchSize, perBatch]), tf.reshape(begins, [batchSize, 1]));
        const sums = tf.unsortedSegmentSum(rows, tf.reshape(ids, [-1]) as tf.Tensor1D, batchSize * dimSize);
        return tf.reshape(swapped(sums, [batchSize, dimSize, outerSize, sliceSize]), x.shape);
      },
      indices: () => tf.zeros(indices.shape),
    };
  },
};

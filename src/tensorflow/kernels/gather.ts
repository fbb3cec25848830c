import { tf } from '../tfjs';
import type { ComposedKernel } from './kernel';

/**
 * `tf.gather` with `batchDims` on wasm, whose kernel takes the indices of all batches from the first. Here all batches
 * are one table, and the indices of a batch begin where its part of the table does.
 */
export const gather: ComposedKernel<tf.GatherV2Attrs> = {
  name: tf.GatherV2,
  compute(inputs, { axis, batchDims }, stock) {
    if (batchDims === 0) return stock();
    const x = inputs['x']!;
    const indices = inputs['indices']!;
    const { table, ids, info } = asOneTable(x, indices, axis, batchDims);
    const rows = stock({ inputs: { x: table, indices: ids }, attributes: { axis: 0, batchDims: 0 } });
    const { batchSize, outerSize, sliceSize, outputShape } = info;
    const parts = tf.reshape(rows, [batchSize, ids.size / batchSize, outerSize, sliceSize]);
    return tf.reshape(outerSize === 1 ? parts : tf.transpose(parts, [0, 2, 1, 3]), outputShape);
  },
};

/** tfjs-node's kernel, which knows no negative axis. */
export const gatherAlongNegative: ComposedKernel<tf.GatherV2Attrs> = {
  name: tf.GatherV2,
  compute(inputs, { axis }, stock) {
    return stock({ attributes: { axis: tf.util.parseAxisParam(axis, inputs['x']!.shape)[0]! } });
  },
};

/** `x` as a table of [batch · dimension, outer · slice], and for each index its row in there. */
function asOneTable(x: tf.Tensor, indices: tf.Tensor, axis: number, batchDims: number) {
  const parsedAxis = tf.util.parseAxisParam(axis, x.shape)[0]!;
  const info = tf.backend_util.segment_util.collectGatherOpShapeInfo(x, indices, parsedAxis, batchDims);
  const { batchSize, outerSize, dimSize, sliceSize } = info;
  const parts = tf.reshape(x, [batchSize, outerSize, dimSize, sliceSize]);
  const table = tf.reshape(outerSize === 1 ? parts : tf.transpose(parts, [0, 2, 1, 3]), [batchSize * dimSize, -1]);
  const perBatch = indices.size / batchSize;
  const ids = indices.dataSync().map((index, i) => {
    // The stock kernel would take a row of another batch.
    tf.util.assert(
      index >= 0 && index < dimSize,
      () => `GatherV2: the index value ${index} is not in [0, ${dimSize - 1}]`,
    );
    return index + Math.floor(i / perBatch) * dimSize;
  });
  return { table, ids: tf.tensor1d(ids, 'int32'), info };
}

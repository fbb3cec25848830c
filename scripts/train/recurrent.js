/** Rows of numbers times a matrix, as numbers: one product of a recurrent layer for one time. */
function timesMatrix(tf, values, matrix) {
  const rows = tf.tensor2d(values, [values.length / matrix.shape[0], matrix.shape[0]]);
  const product = tf.matMul(rows, matrix);
  const result = product.dataSync();
  tf.dispose([rows, product]);
  return result;
}

const sigmoid = x => 1 / (1 + Math.exp(-x));

module.exports = { sigmoid, timesMatrix };

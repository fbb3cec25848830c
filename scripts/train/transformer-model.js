/**
 * A decoder-only transformer over words (Vaswani et al., 2017), with normalization before each part, as in GPT-2. The
 * embedding is also the output layer.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {{ words: number, length: number, width: number, heads: number, layers: number, seed: number }} options
 */
function transformer(tf, { words, length, width, heads, layers, seed }) {
  const variables = [];
  const variable = (name, initial) => {
    variables.push(tf.variable(initial, true, name));
    return variables.at(-1);
  };
  const matrix = (name, rows, columns) =>
    variable(name, tf.randomNormal([rows, columns], 0, 0.02, 'float32', seed * 1000 + variables.length));
  const embedding = matrix('embedding', words, width);
  const positions = matrix('positions', length, width);
  const blocks = Array.from({ length: layers }, (_, i) => ({
    query: matrix(`${i}/query`, width, width),
    key: matrix(`${i}/key`, width, width),
    value: matrix(`${i}/value`, width, width),
    output: matrix(`${i}/output`, width, width),
    widen: matrix(`${i}/widen`, width, 4 * width),
    narrow: matrix(`${i}/narrow`, 4 * width, width),
    gains: [0, 1].map(part => variable(`${i}/gain ${part}`, tf.ones([width]))),
  }));
  const lastGain = variable('gain', tf.ones([width]));
  // Added to the scores, so that no word uses the words after it.
  const mask = tf.linalg
    .bandPart(tf.ones([length, length]), -1, 0)
    .sub(1)
    .mul(1e9);

  const normalized = (x, gain) => {
    const { mean, variance } = tf.moments(x, -1, true);
    return x.sub(mean).div(variance.add(1e-5).sqrt()).mul(gain);
  };
  const times = (x, weights) => {
    const shape = x.shape.slice(0, -1);
    return x.reshape([-1, x.shape.at(-1)]).matMul(weights).reshape([...shape, weights.shape[1]]); // prettier-ignore
  };
  const attention = (x, { query, key, value, output }) => {
    const rows = x.shape[0];
    const split = weights => times(x, weights).reshape([rows, length, heads, width / heads]).transpose([0, 2, 1, 3]); // prettier-ignore
    const scores = tf.matMul(split(query), split(key), false, true).div(Math.sqrt(width / heads)).add(mask); // prettier-ignore
    const mixed = tf.matMul(tf.softmax(scores), split(value)).transpose([0, 2, 1, 3]);
    return times(mixed.reshape([rows, length, width]), output);
  };
  const feedForward = (x, { widen, narrow }) => times(times(x, widen).relu(), narrow);

  /**
   * The mean cross-entropy of the next words, in nats.
   *
   * @param {import('@tensorflow/tfjs').Tensor2D} x
   * @param {import('@tensorflow/tfjs').Tensor2D} next
   * @returns {import('@tensorflow/tfjs').Scalar}
   */
  const loss = (x, next) =>
    tf.tidy(() => {
      let hidden = tf.gather(embedding, x).add(positions);
      for (const block of blocks) {
        hidden = hidden.add(attention(normalized(hidden, block.gains[0]), block));
        hidden = hidden.add(feedForward(normalized(hidden, block.gains[1]), block));
      }
      const logits = tf.matMul(normalized(hidden, lastGain).reshape([-1, width]), embedding, false, true);
      const labels = tf.oneHot(next.flatten(), words);
      return /** @type {import('@tensorflow/tfjs').Scalar} */ (tf.losses.softmaxCrossEntropy(labels, logits));
    });
  return { variables, loss };
}

module.exports = { transformer };

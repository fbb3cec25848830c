/** How many rows are tested in one go: their logits must fit into the memory. */
const TESTED_TOGETHER = 32;

/**
 * A language model of LSTM layers over words (Zaremba et al., 2014), in which the embedding is also the output layer
 * (Press and Wolf, 2017), so layers are as wide as the embedding. It is written in operations of TensorFlow.js:
 * tf.layers cannot share a matrix between two layers, and took twice as long on wasm.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {object} options
 * @param {number} options.words How many words have a number.
 * @param {number} options.units The width of the embedding and of each layer.
 * @param {number} [options.layers]
 * @param {number} options.seed Decides the initial weights.
 */
function lstm(tf, { words, units, layers = 2, seed }) {
  const variables = [];
  const variable = (name, initial) => {
    variables.push(tf.variable(initial, true, name));
    initial.dispose();
    return variables.at(-1);
  };
  const matrix = (name, rows, columns) =>
    variable(name, tf.randomUniform([rows, columns], -0.1, 0.1, 'float32', seed * 1000 + variables.length));
  const embedding = matrix('embedding', words, units);
  const outputBias = variable('output bias', tf.zeros([words]));
  const cells = Array.from({ length: layers }, (_, i) => ({
    input: matrix(`lstm ${i}/input`, units, 4 * units),
    recurrent: matrix(`lstm ${i}/recurrent`, units, 4 * units),
    bias: variable(`lstm ${i}/bias`, tf.zeros([4 * units])),
  }));

  /** From the outputs of the layer below to its own, [length · rows, units], with all rows of a time together. */
  const layer = (below, { input, recurrent, bias }, length) => {
    const rows = below.shape[0] / length;
    // The part of the input is one product for all times; that of the state is one product for each.
    const projected = below
      .matMul(input)
      .add(bias)
      .reshape([length, rows, 4 * units]);
    let state = tf.zeros([rows, units]);
    let memory = state;
    const outputs = tf.unstack(projected).map(part => {
      const [gates, candidate] = tf.split(part.add(state.matMul(recurrent)), [3 * units, units], 1);
      const [keep, write, show] = tf.split(gates.sigmoid(), 3, 1);
      memory = keep.mul(memory).add(write.mul(candidate.tanh()));
      state = show.mul(memory.tanh());
      return state;
    });
    return tf.concat(outputs, 0);
  };

  /** The mean cross-entropy of the next words of each row, in nats. The state is zero before each row. */
  const rowLosses = (x, next) => {
    const [rows, length] = x.shape;
    let hidden = tf.gather(embedding, x.transpose().flatten());
    for (const cell of cells) hidden = layer(hidden, cell, length);
    const logProbabilities = hidden.matMul(embedding, false, true).add(outputBias).logSoftmax();
    const labels = tf.oneHot(next.transpose().flatten(), words);
    return logProbabilities.mul(labels).sum(1).neg().reshape([length, rows]).mean(0);
  };

  return {
    variables,

    /**
     * The mean cross-entropy of the next words, in nats.
     *
     * @param {import('@tensorflow/tfjs').Tensor2D} x int32 [rows, length]
     * @param {import('@tensorflow/tfjs').Tensor2D} next The words that follow those of x.
     * @returns {import('@tensorflow/tfjs').Scalar}
     */
    loss: (x, next) => tf.tidy(() => rowLosses(x, next).mean()),

    /** The same for each row. @returns {Float32Array} */
    test(x, next) {
      const count = x.shape[0];
      const losses = new Float32Array(count);
      for (let at = 0; at < count; at += TESTED_TOGETHER) {
        const rows = Math.min(TESTED_TOGETHER, count - at);
        losses.set(
          tf.tidy(() => rowLosses(x.slice(at, rows), next.slice(at, rows)).dataSync()),
          at,
        );
      }
      return losses;
    },
  };
}

module.exports = { lstm };

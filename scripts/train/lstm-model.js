const { sigmoid, timesMatrix } = require('./recurrent');

/** How many rows are tested in one go: their logits must fit into the memory. */
const TESTED_TOGETHER = 32;

/**
 * A language model of LSTM layers over words (Zaremba et al., 2014), in which the embedding is also the output layer
 * (Press and Wolf, 2017), so layers are as wide as the embedding. tf.layers cannot share a matrix between two layers.
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
  const layer = (below, { input, recurrent, bias }, length) =>
    lstmStates(tf, below.matMul(input).add(bias), recurrent, length);

  /** The mean cross-entropy of the next words of each row, in nats. The state is zero before each row. */
  const rowLosses = (x, next) => {
    const [rows, length] = x.shape;
    let hidden = tf.gather(embedding, x.transpose().flatten());
    for (const cell of cells) hidden = layer(hidden, cell, length);
    const logits = hidden.matMul(embedding, false, true).add(outputBias);
    return crossEntropy(tf, logits, next.transpose().flatten()).reshape([length, rows]).mean(0);
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

/**
 * A layer of LSTM cells, for inputs that are multiplied by the input weights already: [time × rows, 4 × units], the
 * parts of the gates that keep, write and show, and of the candidate. Returns the states [time × rows, units]. The
 * first state and the first memory are zeros.
 *
 * The products are TensorFlow.js's. What is elementwise runs in plain loops, and the gradient of the weights is one
 * product for all times: on wasm, a tape of some fifteen ops for each time takes three times as long.
 */
function lstmStates(tf, inputs, weights, time) {
  const [rows, width] = [inputs.shape[0] / time, inputs.shape[1]];
  const units = width / 4;
  const size = rows * units;

  return tf.customGrad((inputs, weights) => {
    const x = inputs.dataSync();
    const gates = new Float32Array(x.length);
    // Those before the first time are zeros: time t is at (t + 1) * size.
    const states = new Float32Array((time + 1) * size);
    const memories = new Float32Array((time + 1) * size);
    const noProduct = new Float32Array(rows * width);
    for (let t = 0; t < time; t++) {
      const products = t === 0 ? noProduct : timesMatrix(tf, states.subarray(t * size, (t + 1) * size), weights);
      for (let row = 0; row < rows; row++) {
        for (let unit = 0; unit < units; unit++) {
          const at = t * size + row * units + unit;
          const product = row * width + unit;
          const wide = t * rows * width + product;
          const keep = sigmoid(x[wide] + products[product]);
          const write = sigmoid(x[wide + units] + products[product + units]);
          const show = sigmoid(x[wide + 2 * units] + products[product + 2 * units]);
          const candidate = Math.tanh(x[wide + 3 * units] + products[product + 3 * units]);
          const memory = keep * memories[at] + write * candidate;
          gates[wide] = keep;
          gates[wide + units] = write;
          gates[wide + 2 * units] = show;
          gates[wide + 3 * units] = candidate;
          memories[at + size] = memory;
          states[at + size] = show * Math.tanh(memory);
        }
      }
    }

    const gradFunc = dy => {
      const dStates = dy.dataSync();
      const dInputs = new Float32Array(x.length);
      const transposed = tf.transpose(weights);
      let carried = new Float32Array(size); // the gradient of the state that goes on to the next time
      const dMemories = new Float32Array(size);
      for (let t = time - 1; t >= 0; t--) {
        for (let row = 0; row < rows; row++) {
          for (let unit = 0; unit < units; unit++) {
            const own = row * units + unit;
            const at = t * size + own;
            const wide = t * rows * width + row * width + unit;
            const keep = gates[wide];
            const write = gates[wide + units];
            const show = gates[wide + 2 * units];
            const candidate = gates[wide + 3 * units];
            const shown = Math.tanh(memories[at + size]);
            const dState = dStates[at] + carried[own];
            const dMemory = dMemories[own] + dState * show * (1 - shown * shown);
            dInputs[wide] = dMemory * memories[at] * keep * (1 - keep);
            dInputs[wide + units] = dMemory * candidate * write * (1 - write);
            dInputs[wide + 2 * units] = dState * shown * show * (1 - show);
            dInputs[wide + 3 * units] = dMemory * write * (1 - candidate * candidate);
            dMemories[own] = dMemory * keep;
          }
        }
        if (t > 0) carried = timesMatrix(tf, dInputs.subarray(t * rows * width, (t + 1) * rows * width), transposed);
      }
      const before = tf.tensor2d(states.subarray(0, time * size), [time * rows, units]);
      const dProjected = tf.tensor2d(dInputs, [time * rows, width]);
      return [dProjected, tf.matMul(before, dProjected, true, false)];
    };
    return { value: tf.tensor2d(states.subarray(size), [time * rows, units]), gradFunc };
  })(inputs, weights);
}

/** For each row of logits, minus the logarithm of the probability of its label. Labels are int32. */
function crossEntropy(tf, logits, labels) {
  const [rows, classes] = logits.shape;
  const label = labels.dataSync();
  return tf.customGrad((logits, save) => {
    const x = logits.dataSync();
    const softmax = tf.softmax(logits);
    const probabilities = softmax.dataSync();
    save([softmax, labels]);
    const losses = new Float32Array(rows);
    for (let row = 0; row < rows; row++) {
      const from = row * classes;
      let most = from;
      for (let i = from; i < from + classes; i++) if (x[i] > x[most]) most = i;
      // By the most probable class: the probability of the label itself may be rounded to 0.
      losses[row] = x[most] - x[from + label[row]] - Math.log(probabilities[most]);
    }
    const gradFunc = (dy, [softmax, labels]) => softmax.sub(tf.oneHot(labels, classes)).mul(dy.reshape([rows, 1]));
    return { value: tf.tensor1d(losses), gradFunc };
  })(logits);
}

module.exports = { lstm };

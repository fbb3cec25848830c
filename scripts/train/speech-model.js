const { ctcGreedyDecode, ctcLoss } = require('../..');
const { sigmoid, timesMatrix } = require('./recurrent');

/** The convolution sees this many frames, and gives one frame for two. */
const KERNEL = 11;
const STRIDE = 2;
/** A clipped ReLU, as in Deep Speech. */
const MOST_ACTIVATION = 20;

/** How many frames of logits the model gives for so many frames of features. */
const framesAfter = frames => Math.ceil(frames / STRIDE);

/**
 * A model in the shape of Deep Speech (Amodei et al., ICML 2016): a convolution over time, bidirectional GRU layers,
 * and a dense layer to the classes, trained with CTC. The seed determines its initial weights.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {{ features: number, filters: number, units: number, layers: number, classes: number, seed: number }} options
 */
function speechModel(tf, { features, filters, units, layers, classes, seed }) {
  const variables = [];
  const variable = initial => {
    variables.push(tf.variable(initial));
    initial.dispose();
    return variables.at(-1);
  };
  const matrix = (rows, columns) => {
    const most = Math.sqrt(6 / (rows + columns)); // Glorot and Bengio, 2010
    return variable(tf.randomUniform([rows, columns], -most, most, 'float32', seed * 1000 + variables.length));
  };
  const kernel = matrix(KERNEL * features, filters); // a matrix: dgc treats it like the others
  const kernelBias = variable(tf.zeros([filters]));
  const directions = Array.from({ length: layers }, (_, layer) =>
    [false, true].map(isReversed => ({
      isReversed,
      input: matrix(layer === 0 ? filters : 2 * units, 3 * units),
      bias: variable(tf.zeros([3 * units])),
      recurrent: matrix(units, 3 * units),
    })),
  );
  const output = matrix(2 * units, classes);
  const outputBias = variable(tf.zeros([classes]));

  const dense = (x, weights, bias) => {
    const shape = x.shape.slice(0, -1);
    return x.reshape([-1, x.shape.at(-1)]).matMul(weights).add(bias).reshape([...shape, weights.shape[1]]); // prettier-ignore
  };

  /** Logits [batch, time / 2, classes] for features [batch, time, features]. */
  const logitsOf = ({ x, frames }) =>
    tf.tidy(() => {
      const lengths = frames.map(framesAfter);
      const filter = kernel.reshape([KERNEL, features, filters]);
      // Not 'same', which pads by the length of the batch, so that an utterance would depend on the others.
      const margin = (KERNEL - 1) / 2;
      const padded = tf.pad(x, [[0, 0], [margin, margin], [0, 0]]); // prettier-ignore
      let hidden = tf.conv1d(padded, filter, STRIDE, 'valid').add(kernelBias).clipByValue(0, MOST_ACTIVATION);
      hidden = hidden.transpose([1, 0, 2]); // [time, batch, …], so that a frame's rows are together
      for (const layer of directions) {
        const states = layer.map(({ isReversed, input, bias, recurrent }) =>
          gru(tf, dense(hidden, input, bias), recurrent, { lengths, isReversed }),
        );
        hidden = tf.concat(states, 2);
      }
      return dense(hidden, output, outputBias).transpose([1, 0, 2]);
    });

  /** The loss of each utterance, in nats. */
  const losses = batch => tf.tidy(() => ctcLoss(logitsOf(batch), batch.labels, { timeLengths: batch.frames.map(framesAfter) })); // prettier-ignore

  /** The mean loss, and the labels of each utterance as the model hears them. */
  const tested = batch =>
    tf.tidy(() => {
      const logits = logitsOf(batch);
      const timeLengths = batch.frames.map(framesAfter);
      const heard = ctcGreedyDecode(logits, { timeLengths });
      return { losses: ctcLoss(logits, batch.labels, { timeLengths }).arraySync(), heard };
    });

  return { variables, losses, tested };
}

/**
 * One direction of a GRU layer (Cho et al., 2014), for inputs that are multiplied by the input weights already: [time,
 * batch, 3 × units], the parts of the reset gate, the update gate and the candidate. Returns the states [time, batch,
 * units]. After the end of a sequence the state does not change; so the reversed direction begins there, with zeros.
 *
 * The candidate is tanh(input + reset × (state · weights)), as in cuDNN, so that a frame needs one matrix product. The
 * products are TensorFlow.js's. What is elementwise runs in plain loops, and the gradient of the weights is one product
 * for all frames: a tape of some twenty ops for each frame takes several times as long.
 */
function gru(tf, inputs, weights, { lengths, isReversed }) {
  const [time, batch, width] = inputs.shape;
  const units = width / 3;
  const rows = batch * units;
  const order = Array.from({ length: time }, (_, i) => (isReversed ? time - 1 - i : i));
  const before = t => (isReversed ? t + 1 : t - 1); // the frame whose state a frame continues
  const isFirst = t => before(t) < 0 || before(t) === time;

  return tf.customGrad((inputs, weights) => {
    const x = inputs.dataSync();
    const states = new Float32Array(time * rows);
    const gates = new Float32Array(time * 3 * rows); // reset, update and candidate
    const candidates = new Float32Array(time * rows); // state · weights, for the candidate
    const none = new Float32Array(rows);
    const noProduct = new Float32Array(3 * rows);
    for (const t of order) {
      const old = isFirst(t) ? none : states.subarray(before(t) * rows, (before(t) + 1) * rows);
      const products = isFirst(t) ? noProduct : timesMatrix(tf, old, weights);
      for (let b = 0; b < batch; b++) {
        const isPadding = t >= lengths[b];
        for (let j = 0; j < units; j++) {
          const at = (t * batch + b) * units + j;
          const state = old[b * units + j];
          if (isPadding) {
            states[at] = state;
            continue;
          }
          const wide = (t * batch + b) * width + j;
          const product = b * width + j;
          const reset = sigmoid(x[wide] + products[product]);
          const update = sigmoid(x[wide + units] + products[product + units]);
          const inner = products[product + 2 * units];
          const candidate = Math.tanh(x[wide + 2 * units] + reset * inner);
          gates[wide] = reset;
          gates[wide + units] = update;
          gates[wide + 2 * units] = candidate;
          candidates[at] = inner;
          states[at] = candidate + update * (state - candidate);
        }
      }
    }

    const gradFunc = dy => {
      const dStates = dy.dataSync();
      const dInputs = new Float32Array(time * 3 * rows);
      const dProducts = new Float32Array(time * 3 * rows);
      const olds = new Float32Array(time * rows);
      const transposed = tf.transpose(weights);
      const carried = new Float32Array(rows); // the gradient of the state that goes on to the next frame
      for (const t of [...order].reverse()) {
        const old = isFirst(t) ? none : states.subarray(before(t) * rows, (before(t) + 1) * rows);
        olds.set(old, t * rows);
        for (let b = 0; b < batch; b++) {
          const isPadding = t >= lengths[b];
          for (let j = 0; j < units; j++) {
            const at = (t * batch + b) * units + j;
            const own = b * units + j;
            const dState = dStates[at] + carried[own];
            if (isPadding) {
              carried[own] = dState;
              continue;
            }
            const wide = (t * batch + b) * width + j;
            const reset = gates[wide];
            const update = gates[wide + units];
            const candidate = gates[wide + 2 * units];
            const dCandidate = dState * (1 - update) * (1 - candidate ** 2);
            const dReset = dCandidate * candidates[at] * reset * (1 - reset);
            const dUpdate = dState * (old[own] - candidate) * update * (1 - update);
            dInputs[wide] = dProducts[wide] = dReset;
            dInputs[wide + units] = dProducts[wide + units] = dUpdate;
            dInputs[wide + 2 * units] = dCandidate;
            dProducts[wide + 2 * units] = dCandidate * reset;
            carried[own] = dState * update;
          }
        }
        if (isFirst(t)) continue;
        const through = timesMatrix(tf, dProducts.subarray(t * 3 * rows, (t + 1) * 3 * rows), transposed);
        for (let i = 0; i < rows; i++) carried[i] += through[i];
      }
      const all = tf.tensor2d(olds, [time * batch, units]);
      const products = tf.tensor2d(dProducts, [time * batch, width]);
      return [tf.tensor3d(dInputs, [time, batch, width]), tf.matMul(all, products, true, false)];
    };
    return { value: tf.tensor3d(states, [time, batch, units]), gradFunc };
  })(inputs, weights);
}

module.exports = { framesAfter, gru, speechModel };

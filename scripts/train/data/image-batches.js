const seedrandom = require('seedrandom');
const { CHANNELS, CLASSES, IMAGE_BYTES, SIDE } = require('./cifar10');

/** An image gets this many zeros on each side; then a part of the original size is cut out (He et al., section 4.2). */
const PADDING = 4;

/**
 * Batches of images in an order that changes with each epoch. Each image is moved by up to four pixels, and half of the
 * images are mirrored. An incomplete last batch is left out. All ranks get the same batches, as `ring.shard` needs it.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {import('./cifar10').Images} images
 * @param {{ batchSize: number, seed: number }} options
 * @returns {tf.data.Dataset<{ xs: tf.Tensor4D, ys: tf.Tensor2D }>}
 */
function augmentedBatches(tf, { pixels, labels }, { batchSize, seed }) {
  let epoch = 0;
  return tf.data.generator(function* () {
    const random = seedrandom(`${seed} epoch ${epoch++}`);
    const order = shuffled(labels.length, random);
    for (let at = 0; at + batchSize <= order.length; at += batchSize) {
      const batch = new Float32Array(batchSize * IMAGE_BYTES);
      const chosen = order.subarray(at, at + batchSize);
      chosen.forEach((image, i) => {
        const from = pixels.subarray(image * IMAGE_BYTES, (image + 1) * IMAGE_BYTES);
        const move = () => Math.floor(random() * (2 * PADDING + 1)) - PADDING;
        draw(from, batch.subarray(i * IMAGE_BYTES), { right: move(), down: move(), isMirrored: random() < 0.5 });
      });
      yield {
        xs: tf.tensor4d(batch, [batchSize, SIDE, SIDE, CHANNELS]),
        ys: oneHot(
          tf,
          Int32Array.from(chosen, image => labels[image]),
        ),
      };
    }
  });
}

/** All images, unchanged. */
function wholeSet(tf, { pixels, labels }) {
  return { xs: tf.tensor4d(pixels, [labels.length, SIDE, SIDE, CHANNELS]), ys: oneHot(tf, labels) };
}

function draw(from, to, { right, down, isMirrored }) {
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const fromX = (isMirrored ? SIDE - 1 - x : x) - right;
      const fromY = y - down;
      if (fromX < 0 || fromX >= SIDE || fromY < 0 || fromY >= SIDE) continue; // it stays 0, the mean
      const source = (fromY * SIDE + fromX) * CHANNELS;
      const target = (y * SIDE + x) * CHANNELS;
      for (let channel = 0; channel < CHANNELS; channel++) to[target + channel] = from[source + channel];
    }
  }
}

function shuffled(count, random) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return order;
}

function oneHot(tf, labels) {
  return tf.tidy(() => tf.oneHot(tf.tensor1d(labels, 'int32'), CLASSES).toFloat());
}

module.exports = { augmentedBatches, wholeSet };

const seedrandom = require('seedrandom');
const { shuffled } = require('./shuffled');

const CLASSES = 10;

/** The images of a set that is held as tensors, x [n, height, width, channels] and y [n, classes]. */
function imagesOf(tf, { x, y }) {
  return { pixels: x.dataSync(), labels: tf.tidy(() => y.argMax(1).dataSync()), shape: x.shape.slice(1) };
}

/**
 * Batches of images in an order that changes with each epoch, changed at random (He et al., section 4.2). An incomplete
 * last batch is left out. All ranks get the same batches, as `ring.shard` needs it.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {import('./cifar10').Images} images
 * @param {object} options
 * @param {number} options.batchSize
 * @param {number} options.seed
 * @param {number} options.padding Each side gets so many zeros; then a part of the original size is cut out.
 * @param {boolean} options.mirrors Whether half of the images are mirrored.
 * @returns {import('@tensorflow/tfjs').data.Dataset<import('@tensorflow/tfjs').TensorContainer>} `{ xs, ys }`, of
 *   four and two dimensions.
 */
function augmentedBatches(tf, { pixels, labels, shape }, { batchSize, seed, padding, mirrors }) {
  const imageSize = shape[0] * shape[1] * shape[2];
  let epoch = 0;
  return tf.data.generator(function* () {
    const random = seedrandom(`${seed} epoch ${epoch++}`);
    const order = shuffled(labels.length, random);
    for (let at = 0; at + batchSize <= order.length; at += batchSize) {
      const batch = new Float32Array(batchSize * imageSize);
      const chosen = order.subarray(at, at + batchSize);
      chosen.forEach((image, i) => {
        const from = pixels.subarray(image * imageSize, (image + 1) * imageSize);
        const move = () => Math.floor(random() * (2 * padding + 1)) - padding;
        const change = { right: move(), down: move(), isMirrored: mirrors && random() < 0.5 };
        draw(from, batch.subarray(i * imageSize), shape, change);
      });
      const chosenLabels = Int32Array.from(chosen, image => labels[image]);
      yield { xs: tf.tensor4d(batch, [batchSize, ...shape]), ys: oneHot(tf, chosenLabels) };
    }
  });
}

/** All images, unchanged. */
function wholeSet(tf, { pixels, labels, shape }) {
  return { xs: tf.tensor4d(pixels, [labels.length, ...shape]), ys: oneHot(tf, labels) };
}

function draw(from, to, [height, width, channels], { right, down, isMirrored }) {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const fromX = (isMirrored ? width - 1 - x : x) - right;
      const fromY = y - down;
      if (fromX < 0 || fromX >= width || fromY < 0 || fromY >= height) continue; // it stays 0
      const source = (fromY * width + fromX) * channels;
      const target = (y * width + x) * channels;
      for (let channel = 0; channel < channels; channel++) to[target + channel] = from[source + channel];
    }
  }
}

function oneHot(tf, labels) {
  return tf.tidy(() => tf.oneHot(tf.tensor1d(labels, 'int32'), CLASSES).toFloat());
}

module.exports = { augmentedBatches, imagesOf, oneHot, wholeSet };

// Images in the format of MNIST, for digits.js --data-dir: IDX, with a magic number, the sizes, then bytes.
const { DataError, readDataFile } = require('./files');

const UNSIGNED_BYTES = 8;
const CLASSES = 10;

/**
 * @typedef {object} Images
 * @property {import('@tensorflow/tfjs').Tensor4D} x [n, height, width, 1], intensities 0 … 1.
 * @property {import('@tensorflow/tfjs').Tensor2D} y [n, 10], one-hot.
 */

/**
 * Reads the four files of MNIST, or of a set in the same format (Fashion-MNIST, …).
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {string} directory
 * @returns {{ train: Images, test: Images, source: string }}
 */
function loadIdx(tf, directory) {
  const part = prefix => {
    const images = readIdx(directory, `${prefix}-images-idx3-ubyte`, 3);
    const labels = readIdx(directory, `${prefix}-labels-idx1-ubyte`, 1);
    const [count, height, width] = images.sizes;
    if (labels.sizes[0] !== count) throw new DataError(`${prefix}: ${count} images, but ${labels.sizes[0]} labels.`);
    if (labels.bytes.some(label => label >= CLASSES)) throw new DataError(`${prefix}: a label is over ${CLASSES - 1}.`);
    return tf.tidy(() => ({
      x: tf.tensor4d(
        Float32Array.from(images.bytes, byte => byte / 255),
        [count, height, width, 1],
      ),
      y: /** @type {import('@tensorflow/tfjs').Tensor2D} */ (
        tf.oneHot(tf.tensor1d(Int32Array.from(labels.bytes), 'int32'), CLASSES).toFloat()
      ),
    }));
  };
  return { train: part('train'), test: part('t10k'), source: `${directory}, in the format of MNIST` };
}

function readIdx(directory, name, dimensions) {
  const data = readDataFile(directory, name);
  const headerBytes = 4 + 4 * dimensions;
  const isIdx = data.length >= headerBytes && data.readUInt16BE(0) === 0 && data[2] === UNSIGNED_BYTES;
  if (!isIdx || data[3] !== dimensions)
    throw new DataError(`${name} is no IDX file of bytes in ${dimensions} dimensions.`);
  const sizes = Array.from({ length: dimensions }, (_, i) => data.readUInt32BE(4 + 4 * i));
  const bytes = data.subarray(headerBytes);
  const expected = sizes.reduce((product, size) => product * size, 1);
  if (bytes.length !== expected)
    throw new DataError(`${name} holds ${bytes.length} bytes where ${sizes.join(' × ')} need ${expected}.`);
  return { sizes, bytes };
}

module.exports = { loadIdx };

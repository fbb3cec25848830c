// The digits of README.md. Every fifth image is for testing.
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { gunzipSync } = require('node:zlib');

const IMAGE_PIXELS = 64;
const CLASSES = 10;
const MAX_INTENSITY = 16;

/**
 * Reads the digits as rows of 64 intensities 0 … 1, and their classes.
 *
 * @param {{ fold?: number }} [options] `fold`: which images are for testing, 0 to 4. Each is in one of the five folds.
 */
function readShippedDigits({ fold = 4 } = {}) {
  const text = gunzipSync(readFileSync(path.join(__dirname, 'optdigits.csv.gz'))).toString('utf8');
  const rows = text.trim().split('\n').map(line => line.split(',').map(Number)); // prettier-ignore
  if (rows.some(row => row.length !== IMAGE_PIXELS + 1)) throw new Error('optdigits.csv.gz is damaged');
  const split = isTest => {
    const part = rows.filter((_, i) => (i % 5 === fold) === isTest);
    return {
      pixels: part.map(row => row.slice(0, IMAGE_PIXELS).map(value => value / MAX_INTENSITY)),
      classes: part.map(row => row[IMAGE_PIXELS]),
    };
  };
  return {
    train: split(false),
    test: split(true),
    source: 'real handwritten digits, 8 × 8 pixels (Alpaydin and Kaynak, 1998)',
  };
}

/**
 * Reads the digits as tensors: x [n, 8, 8, 1] with intensities 0 … 1, y [n, 10] one-hot.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {{ fold?: number }} [options] As of {@link readShippedDigits}.
 */
function loadShippedDigits(tf, options) {
  const { train, test, source } = readShippedDigits(options);
  const tensors = ({ pixels, classes }) => ({
    x: tf.tensor(pixels, [pixels.length, IMAGE_PIXELS]).reshape([pixels.length, 8, 8, 1]),
    y: tf.oneHot(tf.tensor1d(classes, 'int32'), CLASSES).toFloat(),
  });
  return { train: tensors(train), test: tensors(test), source };
}

module.exports = { loadShippedDigits, readShippedDigits };

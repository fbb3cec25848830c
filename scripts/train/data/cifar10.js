// CIFAR-10, for resnet.js --data-dir: the binary version, with a label and 3 × 32 × 32 bytes for each image.
const { DataError, readDataFile } = require('./files');

const SIDE = 32;
const CHANNELS = 3;
const CLASSES = 10;
const IMAGE_BYTES = CHANNELS * SIDE * SIDE;
const RECORD_BYTES = 1 + IMAGE_BYTES;
const TRAIN_FILES = [1, 2, 3, 4, 5].map(number => `data_batch_${number}.bin`);

/**
 * Reads the six files of cifar-10-batches-bin.
 *
 * @param {string} directory
 * @returns {{ train: Images, test: Images }} See {@link toImages}.
 */
function loadCifar10(directory) {
  const read = names => toImages(Buffer.concat(names.map(name => checked(name, readDataFile(directory, name)))));
  return { train: read(TRAIN_FILES), test: read(['test_batch.bin']) };
}

function checked(name, data) {
  if (data.length === 0 || data.length % RECORD_BYTES !== 0) {
    throw new DataError(
      `${name} has ${data.length} bytes, which is no multiple of the ${RECORD_BYTES} of an image: is it the binary version?`,
    );
  }
  for (let at = 0; at < data.length; at += RECORD_BYTES) {
    if (data[at] >= CLASSES) throw new DataError(`${name}: the label of image ${at / RECORD_BYTES} is ${data[at]}.`);
  }
  return data;
}

/**
 * @typedef {object} Images
 * @property {Float32Array} pixels Image by image, row by row, the three channels of a pixel together; mean 0 and
 *   variance 1 by channel.
 * @property {Int32Array} labels
 * @property {[height: number, width: number, channels: number]} shape Of an image.
 */

/** Turns bytes, channel by channel, into {@link Images}. @param {Buffer} records @returns {Images} */
function toImages(records) {
  const count = records.length / RECORD_BYTES;
  const pixels = new Float32Array(count * IMAGE_BYTES);
  const labels = new Int32Array(count);
  const area = SIDE * SIDE;
  for (let image = 0; image < count; image++) {
    const start = image * RECORD_BYTES;
    labels[image] = records[start];
    for (let channel = 0; channel < CHANNELS; channel++) {
      for (let pixel = 0; pixel < area; pixel++) {
        const byte = records[start + 1 + channel * area + pixel];
        pixels[image * IMAGE_BYTES + pixel * CHANNELS + channel] = (byte / 255 - MEAN[channel]) / DEVIATION[channel];
      }
    }
  }
  return { pixels, labels, shape: [SIDE, SIDE, CHANNELS] };
}

/** The mean and the deviation of the training images, by channel. */
const MEAN = [0.4914, 0.4822, 0.4465];
const DEVIATION = [0.247, 0.2435, 0.2616];

module.exports = { CHANNELS, CLASSES, RECORD_BYTES, SIDE, loadCifar10, toImages };

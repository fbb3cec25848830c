// Images for a training without data. They are not real, but can be learned, and are the same everywhere.
const seedrandom = require('seedrandom');
const { CHANNELS, CLASSES, RECORD_BYTES, SIDE, toImages } = require('./cifar10');

/** The most by which noise changes a byte, up or down. */
const NOISE = 60;
/** The most by which a pattern is moved within its image, in pixels. */
const SHIFT = 4;

/**
 * Images in the format of CIFAR-10. Each class has its own pattern of waves. In each image it is moved, and has noise.
 *
 * @param {{ trainCount: number, testCount: number, seed: number }} options
 */
function syntheticImages({ trainCount, testCount, seed }) {
  const patterns = Array.from({ length: CLASSES }, (_, label) => wavesOf(seedrandom(`${seed} pattern ${label}`)));
  const make = (count, part) => toImages(records(count, patterns, seedrandom(`${seed} ${part}`)));
  return { train: make(trainCount, 'train'), test: make(testCount, 'test') };
}

function wavesOf(random) {
  return Array.from({ length: CHANNELS }, () => ({ x: random() * 0.8, y: random() * 0.8, phase: random() * 6 }));
}

function records(count, patterns, random) {
  const bytes = Buffer.alloc(count * RECORD_BYTES);
  let at = 0;
  for (let image = 0; image < count; image++) {
    const label = Math.floor(random() * CLASSES);
    const [right, down] = [random() * SHIFT, random() * SHIFT];
    bytes[at++] = label;
    for (const { x, y, phase } of patterns[label]) {
      for (let pixel = 0; pixel < SIDE * SIDE; pixel++) {
        const wave = Math.sin(x * ((pixel % SIDE) + right) + y * (Math.floor(pixel / SIDE) + down) + phase);
        bytes[at++] = 128 + 60 * wave + NOISE * (2 * random() - 1);
      }
    }
  }
  return bytes;
}

module.exports = { syntheticImages };

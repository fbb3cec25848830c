// Text as numbers, for the language models: the Penn Treebank, or a real text that is always there.
const { readFileSync } = require('node:fs');
const seedrandom = require('seedrandom');
const { DataError, readDataFile } = require('./files');
const { shuffled } = require('./shuffled');

const END_OF_LINE = '<eos>';
const UNKNOWN = '<unk>';

/** A text that has no parts of its own is cut into pieces of so many words. */
const PIECE = 5000;
/** Of so many pieces one is for validation, and one for testing. */
const PIECES_A_GROUP = 20;

/**
 * @typedef {object} Corpus
 * @property {string[]} vocabulary The most frequent words, by number.
 * @property {Int32Array} train
 * @property {Int32Array} valid
 * @property {Int32Array} test
 * @property {string} source What it is, in words.
 */

/** Which text a program trains on, for yargs. */
const TEXT_OPTIONS = /** @type {const} */ ({
  'data-dir': {
    type: 'string',
    describe: 'a folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt [default: the source text of TensorFlow.js]',
  },
  length: { type: 'number', default: 16, describe: 'words in a row' },
  rows: { type: 'number', default: 2048, describe: 'the most rows of the text to train on' },
});

/**
 * The Penn Treebank, or the text that is there without it.
 *
 * @param {string | undefined} directory
 * @param {number} vocabularySize
 * @returns {Corpus}
 */
function loadText(directory, vocabularySize) {
  return directory === undefined ? loadTensorFlowSource(vocabularySize) : loadPennTreebank(directory, vocabularySize);
}

/**
 * Reads ptb.train.txt, ptb.valid.txt and ptb.test.txt: words separated by spaces, one sentence in each line.
 *
 * @param {string} directory
 * @param {number} vocabularySize
 * @returns {Corpus}
 */
function loadPennTreebank(directory, vocabularySize) {
  const [train, valid, test] = ['train', 'valid', 'test'].map(part => {
    const name = `ptb.${part}.txt`;
    const text = readDataFile(directory, name).toString('utf8');
    if (!text.includes(UNKNOWN))
      throw new DataError(`${name} has no ${UNKNOWN}: is it the Penn Treebank in Mikolov's version?`);
    return text.split('\n').flatMap(line => (line.trim() === '' ? [] : [...line.trim().split(/\s+/), END_OF_LINE]));
  });
  return { ...numbered({ train, valid, test }, vocabularySize), source: `Penn Treebank in ${directory}` };
}

/**
 * The source text of TensorFlow.js: a real text, though no prose. gradring needs one exact version of it, so the text
 * is the same everywhere. Validation and test text come from all over it, because its end is about other things than
 * its start.
 *
 * @param {number} vocabularySize
 * @returns {Corpus}
 */
function loadTensorFlowSource(vocabularySize) {
  const text = readFileSync(require.resolve('@tensorflow/tfjs/dist/tf.fesm.js'), 'utf8');
  const words = text.match(/[A-Za-z_$][\w$]*|\d+|\n|[^\s\w]/g).map(word => (word === '\n' ? END_OF_LINE : word));
  const place = index => Math.floor(index / PIECE) % PIECES_A_GROUP;
  const parts = {
    train: words.filter((_, index) => place(index) < PIECES_A_GROUP - 2),
    valid: words.filter((_, index) => place(index) === PIECES_A_GROUP - 2),
    test: words.filter((_, index) => place(index) === PIECES_A_GROUP - 1),
  };
  const { version } = require('@tensorflow/tfjs/package.json');
  const source = `source text of TensorFlow.js ${version} (no prose; --data-dir takes the Penn Treebank)`;
  return { ...numbered(parts, vocabularySize), source };
}

function numbered({ train, valid, test }, vocabularySize) {
  const counts = new Map();
  for (const word of train) counts.set(word, (counts.get(word) ?? 0) + 1);
  counts.delete(UNKNOWN);
  // Words with equal counts are sorted by the word, so that all ranks have the same numbers.
  const byCount = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([word]) => word);
  const vocabulary = [UNKNOWN, ...byCount.slice(0, vocabularySize - 1)];
  const numbers = new Map(vocabulary.map((word, number) => [word, number]));
  const encode = words => Int32Array.from(words, word => numbers.get(word) ?? 0);
  return { vocabulary, train: encode(train), valid: encode(valid), test: encode(test) };
}

/**
 * Cuts a text into rows of words, each with the words that follow them.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {Int32Array} text
 * @param {{ length: number, rows: number }} options `length`: words in a row. `rows`: the most rows, from
 *   all over the text.
 * @returns {[x: import('@tensorflow/tfjs').Tensor2D, next: import('@tensorflow/tfjs').Tensor2D]} Both int32 [rows,
 *   length].
 */
function rowsOf(tf, text, { length, rows }) {
  const all = Math.floor((text.length - 1) / length);
  const count = Math.min(rows, all);
  if (count < 1) throw new DataError(`The text has ${text.length} words, too few for a row of ${length}.`);
  const cut = shift => {
    const numbers = new Int32Array(count * length);
    for (let row = 0; row < count; row++) {
      const from = Math.floor((row * all) / count) * length + shift;
      numbers.set(text.subarray(from, from + length), row * length);
    }
    return tf.tensor2d(numbers, [count, length], 'int32');
  };
  return [cut(0), cut(1)];
}

/**
 * The batches of an epoch, in an order that `seed` decides. Rows that do not fill a batch are left out. Each batch is
 * disposed of when the next is asked for.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {[x: import('@tensorflow/tfjs').Tensor2D, next: import('@tensorflow/tfjs').Tensor2D]} rows
 * @param {{ batchSize: number, seed: string }} options
 * @returns {Generator<[x: import('@tensorflow/tfjs').Tensor2D, next: import('@tensorflow/tfjs').Tensor2D]>}
 */
function* shuffledBatches(tf, rows, { batchSize, seed }) {
  const order = shuffled(rows[0].shape[0], seedrandom(seed));
  for (let at = 0; at + batchSize <= order.length; at += batchSize) {
    const batch = tf.tidy(() => {
      const chosen = tf.tensor1d(order.subarray(at, at + batchSize), 'int32');
      return /** @type {typeof rows} */ (rows.map(tensor => tensor.gather(chosen)));
    });
    try {
      yield batch;
    } finally {
      tf.dispose(batch);
    }
  }
}

module.exports = { loadPennTreebank, loadTensorFlowSource, loadText, rowsOf, shuffledBatches, TEXT_OPTIONS };

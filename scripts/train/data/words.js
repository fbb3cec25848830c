// Text as numbers, for lstm.js and transformer.js: the Penn Treebank, or a real text that is always there.
const { readFileSync } = require('node:fs');
const { DataError, readDataFile } = require('./files');

const END_OF_LINE = '<eos>';
const UNKNOWN = '<unk>';

/**
 * @typedef {object} Corpus
 * @property {string[]} vocabulary The most frequent words, by number.
 * @property {Int32Array} train
 * @property {Int32Array} test
 * @property {string} source What it is, in words.
 */

/**
 * Reads ptb.train.txt and ptb.test.txt: words separated by spaces, one sentence in each line.
 *
 * @param {string} directory
 * @param {number} vocabularySize
 * @returns {Corpus}
 */
function loadPennTreebank(directory, vocabularySize) {
  const [train, test] = ['train', 'test'].map(part => {
    const name = `ptb.${part}.txt`;
    const text = readDataFile(directory, name).toString('utf8');
    if (!text.includes(UNKNOWN))
      throw new DataError(`${name} has no ${UNKNOWN}: is it the Penn Treebank in Mikolov's version?`);
    return text.split('\n').flatMap(line => (line.trim() === '' ? [] : [...line.trim().split(/\s+/), END_OF_LINE]));
  });
  return { ...numbered(train, test, vocabularySize), source: `Penn Treebank in ${directory}` };
}

/**
 * The source text of TensorFlow.js: a real text, though no prose. gradring needs one exact version of it, so the text
 * is the same everywhere.
 *
 * @param {number} vocabularySize
 * @returns {Corpus}
 */
function loadTensorFlowSource(vocabularySize) {
  const text = readFileSync(require.resolve('@tensorflow/tfjs/dist/tf.fesm.js'), 'utf8');
  const words = text.match(/[A-Za-z_$][\w$]*|\d+|\n|[^\s\w]/g).map(word => (word === '\n' ? END_OF_LINE : word));
  const split = Math.floor(words.length * 0.95);
  const { version } = require('@tensorflow/tfjs/package.json');
  const source = `source text of TensorFlow.js ${version} (no prose: pass --data-dir for the Penn Treebank)`;
  return { ...numbered(words.slice(0, split), words.slice(split), vocabularySize), source };
}

function numbered(train, test, vocabularySize) {
  const counts = new Map();
  for (const word of train) counts.set(word, (counts.get(word) ?? 0) + 1);
  counts.delete(UNKNOWN);
  // Words with equal counts are sorted by the word, so that all ranks have the same numbers.
  const byCount = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([word]) => word);
  const vocabulary = [UNKNOWN, ...byCount.slice(0, vocabularySize - 1)];
  const numbers = new Map(vocabulary.map((word, number) => [word, number]));
  const encode = words => Int32Array.from(words, word => numbers.get(word) ?? 0);
  return { vocabulary, train: encode(train), test: encode(test) };
}

/**
 * Cuts a text into rows of words, each with the words that follow them.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {Int32Array} text
 * @param {{ length: number, rows: number }} options `length`: words in a row. `rows`: the most rows, from the start of
 *   the text.
 * @returns {[import('@tensorflow/tfjs').Tensor2D, import('@tensorflow/tfjs').Tensor3D]}
 *   [rows, length], and float32 [rows, length, 1], as the loss of tf.layers needs it.
 */
function rowsOf(tf, text, { length, rows }) {
  const count = Math.min(rows, Math.floor((text.length - 1) / length));
  if (count < 1) throw new DataError(`The text has ${text.length} words, too few for a row of ${length}.`);
  const cut = from => tf.tensor2d(text.slice(from, from + count * length), [count, length], 'int32');
  return [cut(0), cut(1).expandDims(2).toFloat()];
}

module.exports = { loadTensorFlowSource, loadPennTreebank, rowsOf };

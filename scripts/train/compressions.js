// The compressions that the examples' option `--compression` may name.
const gradring = require('../..');

const METHODS = {
  dgc: options => gradring.dgc({ sparsity: 0.999, ...options }),
  none: options => gradring.noCompression(options),
  'gradient-dropping': options => gradring.gradientDropping({ sparsity: 0.999, ...options }),
  'one-bit': options => gradring.oneBit(options),
  'tern-grad': options => gradring.ternGrad(options),
  qsgd: options => gradring.qsgd(options),
  'power-sgd': options => gradring.powerSgd(options),
  'low-rank': options => gradring.lowRank(options),
};

/** The option for yargs. */
const COMPRESSION_OPTION = {
  choices: Object.keys(METHODS),
  default: 'dgc',
  describe: 'how gradients are compressed: docs/how-to/compressor.md',
};

/**
 * What `ring.wrap` takes for a name.
 *
 * @param {string} name
 * @param {object} [options]
 * @param {number} [options.clipNorm]
 * @param {number} [options.warmUpSteps] For Deep Gradient Compression; no other method has a warm-up.
 * @param {number} [options.warmUpEpochs] The same.
 * @param {string} [options.values] The same: the format of values.
 */
const compressionOf = (name, { clipNorm, ...ofDgc } = {}) => METHODS[name]({ clipNorm, ...(name === 'dgc' && ofDgc) });

module.exports = { COMPRESSION_OPTION, compressionOf };

// The language model of the study, trained longer, on all of the text, and with momentum: long enough for a sparsity of
// 99.9 %, and with something for momentum correction and masking to do.
const { prepare, train } = require('./language');

const LONG = { rows: Infinity, steps: 10_000, momentum: 0.9 };

module.exports = { name: 'long-language', prepare: (tf, size) => prepare(tf, size, LONG), train };

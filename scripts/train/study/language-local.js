// The language model of the study, trained on all of the text, and long enough for rounds of local steps.
const { prepare, train } = require('./language');

const LONGER = { rows: Infinity, steps: 12_000 };

module.exports = { name: 'language-local', prepare: (tf, size) => prepare(tf, size, LONGER), train };

// The language model of the study, trained four times as long: does what a method loses depend on the length?
const { prepare, train } = require('./language');

const TIMES = 4;

module.exports = {
  name: 'long-language',
  prepare: (tf, size) => {
    const prepared = prepare(tf, size);
    return { ...prepared, steps: TIMES * prepared.steps };
  },
  train,
};

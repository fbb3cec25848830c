// The digits of the study, trained sixteen times as long: does what a method loses depend on the length?
const { prepare, train } = require('./digits');

const TIMES = 16;

module.exports = {
  name: 'long-digits',
  prepare: (tf, size) => {
    const { epochs, steps, ...others } = prepare(tf, size);
    return { ...others, epochs: TIMES * epochs, steps: TIMES * steps };
  },
  train,
};

// The speech of the study, trained four times as long: does what a method loses depend on the length?
const { prepare, train } = require('./speech');

const TIMES = 4;

module.exports = {
  name: 'long-speech',
  prepare: async (tf, size) => {
    const { sizes, decay, steps, ...others } = await prepare(tf, size);
    const longer = { ...sizes, epochs: TIMES * sizes.epochs };
    return { ...others, sizes: longer, decay: decay ** (1 / TIMES), steps: TIMES * steps };
  },
  train,
};

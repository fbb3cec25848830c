const yargs = require('yargs');

const VALUE_FORMATS = ['float32', 'float16', 'bfloat16', 'int8', 'log4'];

/**
 * The options of digits.js. Prints help or what is wrong, and ends the process, where it has to.
 *
 * @param {string[]} argv
 */
function parseOptions(argv) {
  return yargs(argv)
    .scriptName('digits.js')
    .usage('$0 [options]\n\nTrains handwritten digits with and without Deep Gradient Compression, and compares.')
    .option('data-dir', {
      type: 'string',
      describe: "MNIST's four files, or those of a set like it [default: the shipped digits]",
    })
    .option('epochs', { type: 'number', default: 20, describe: 'epochs of each training' })
    .option('batch-size', { type: 'number', default: 8, describe: 'images a rank and step' })
    .option('learning-rate', { type: 'number', default: 0.05 })
    .option('seeds', { type: 'string', default: '1,2,3', describe: 'a training of each kind for each seed' })
    .option('values', { choices: VALUE_FORMATS, default: 'float16', describe: 'how values travel with compression' })
    .option('json', { type: 'string', describe: 'also write the result to this file' })
    .example('npm start', 'four ranks, three seeds')
    .example('npx gradring run -n 2 $0 --data-dir mnist --seeds 1 --batch-size 64', 'two ranks, MNIST')
    .example('npm start -- --seeds 1 --epochs 40 --json result.json', 'one seed, longer, for a program')
    .coerce('seeds', text => text.split(',').map(Number))
    .check(({ epochs, batchSize, learningRate, seeds }) => {
      if (![epochs, batchSize, ...seeds].every(value => Number.isInteger(value) && value > 0) || !(learningRate > 0)) {
        throw new Error(
          '--epochs, --batch-size and --seeds take whole numbers from 1 on, --learning-rate a positive number.',
        );
      }
      return true;
    })
    .strict()
    .parseSync();
}

module.exports = { parseOptions };

const yargs = require('yargs');

const VALUE_FORMATS = ['float32', 'float16', 'bfloat16', 'int8', 'log4'];

/**
 * The options of digits.js. If they ask for help or are wrong, it prints that and ends the process.
 *
 * @param {string[]} argv
 */
function parseOptions(argv) {
  return yargs(argv)
    .scriptName('digits.js')
    .usage('$0 [options]\n\nTrains handwritten digits with and without Deep Gradient Compression, and compares.')
    .option('data-dir', {
      type: 'string',
      describe: 'the four files of MNIST, or of a similar set [default: the digits of the package]',
    })
    .option('epochs', { type: 'number', default: 20, describe: 'epochs of each training' })
    .option('batch-size', { type: 'number', default: 8, describe: 'images for each rank and step' })
    .option('learning-rate', { type: 'number', default: 0.05 })
    .option('seeds', { type: 'string', default: '1,2,3', describe: 'one training of each kind for each seed' })
    .option('values', {
      choices: VALUE_FORMATS,
      default: 'float16',
      describe: 'how values are encoded with compression',
    })
    .option('json', { type: 'string', describe: 'also write the result to this file' })
    .example('npm start', 'four ranks, three seeds')
    .example('npx gradring run -n 2 $0 --data-dir mnist --seeds 1 --batch-size 64', 'two ranks, MNIST')
    .example('npm start -- --seeds 1 --epochs 40 --json result.json', 'one seed, longer, for a program')
    .coerce('seeds', text => text.split(',').map(Number))
    .check(({ epochs, batchSize, learningRate, seeds }) => {
      if (![epochs, batchSize, ...seeds].every(value => Number.isInteger(value) && value > 0) || !(learningRate > 0)) {
        throw new Error(
          '--epochs, --batch-size and --seeds take whole numbers, 1 or more, --learning-rate a positive number.',
        );
      }
      return true;
    })
    .strict()
    .parseSync();
}

module.exports = { parseOptions };

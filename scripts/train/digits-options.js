const yargs = require('yargs');
const { COMPRESSION_OPTION } = require('./compressions');

const VALUE_FORMATS = ['float32', 'float16', 'bfloat16', 'int8', 'log4'];

/** @satisfies {import('yargs').Options} */
const DATA_DIR = {
  type: 'string',
  describe: 'the four files of MNIST, or of a similar set [default: the digits of the package]',
};

/** @satisfies {import('yargs').Options} */
const SEEDS = { type: 'string', default: '1,2,3', describe: 'one training of each kind for each seed' };

/** @satisfies {Record<string, import('yargs').Options>} */
const TRAINING = {
  'data-dir': DATA_DIR,
  epochs: { type: 'number', default: 20, describe: 'epochs of each training' },
  'batch-size': { type: 'number', default: 8, describe: 'images for each rank and step' },
  'learning-rate': { type: 'number', default: 0.05 },
  seeds: SEEDS,
  values: { choices: VALUE_FORMATS, default: 'float16', describe: 'how values are encoded with compression' },
};

/** @satisfies {import('yargs').Options} */
const JSON_FILE = { type: 'string', describe: 'also write the result to this file' };

/**
 * The options of digits.js. If they ask for help or are wrong, it prints that and ends the process.
 *
 * @param {string[]} argv
 */
function parseOptions(argv) {
  return parse(
    yargs(argv)
      .scriptName('digits.js')
      .usage('$0 [options]\n\nTrains handwritten digits with and without compression, and compares.')
      .options(TRAINING)
      .option('compression', { ...COMPRESSION_OPTION, describe: `${COMPRESSION_OPTION.describe}; --values is for dgc` })
      .option('large', {
        type: 'boolean',
        default: false,
        describe: 'a larger network, images of at least 16 pixels, up to 2,000 of them, and one core for each rank',
      })
      .option('methods', {
        type: 'string',
        describe: 'which kinds: the compression, dense [default: both]',
      })
      .option('table', { type: 'boolean', default: true, describe: 'end with a table' })
      .option('json', JSON_FILE)
      .example('npx gradring run -n 2 $0 --data-dir mnist --seeds 1 --batch-size 64', 'two ranks, MNIST')
      .example('npx gradring run -n 4 --link-rate 100mbit $0 --methods dense', 'without compression, on slow links')
      .example('npx gradring run -n 4 $0 --compression qsgd', 'QSGD, and without compression')
      .epilogue('The paper on Deep Gradient Compression has no such task.')
      .middleware((/** @type {any} */ given) => {
        given.methods = given.methods?.split(',') ?? [given.compression, 'dense'];
      })
      .check((/** @type {any} */ { compression, methods }) => {
        const wrong = methods.filter(method => ![compression, 'dense'].includes(method));
        if (wrong.length > 0) throw new Error(`--methods takes ${compression}, dense, not '${wrong.join()}'.`);
        return true;
      }),
  );
}

/**
 * The options of `npm start`. If they ask for help or are wrong, it prints that and ends the process.
 *
 * @param {string[]} argv
 */
function parseStartOptions(argv) {
  return parse(
    yargs(argv)
      .scriptName('npm start --')
      .usage(
        '$0 [options]\n\nTrains handwritten digits on one machine, and on two over slow links with and without compression, and ' +
          'compares. Each machine is a core of this one.',
      )
      .options({
        'data-dir': DATA_DIR,
        seeds: SEEDS,
        epochs: { type: 'number', default: 5, describe: 'epochs of each training' },
      })
      .option('link-rate', {
        type: 'string',
        default: '50mbit',
        describe: 'the rate of the links in the trainings whose time counts: those of the first seed',
      })
      .option('target-accuracy', {
        type: 'number',
        default: 0.9,
        describe: 'the test accuracy to which the time is taken',
      })
      .option('json', JSON_FILE)
      .example('npm start', 'three seeds, links of 50 Mbit/s')
      .example('npm start -- --seeds 1 --link-rate 1gbit', 'one seed, faster links')
      .example('npm start -- --seeds 1 --epochs 12 --json result.json', 'one seed, longer, for a program')
      .check((/** @type {any} */ { linkRate, targetAccuracy }) => {
        const { A_RATE, bitsPerSecondOf } = require('../../dist/environment/link-rate');
        if (bitsPerSecondOf(linkRate) === undefined)
          throw new Error(`--link-rate is '${linkRate}'; it must be ${A_RATE}.`);
        if (!(targetAccuracy > 0 && targetAccuracy <= 1)) throw new Error('--target-accuracy takes a number up to 1.');
        return true;
      }),
  );
}

function parse(options) {
  return options
    .coerce('seeds', text => text.split(',').map(Number))
    .check(({ epochs, batchSize = 1, learningRate = 1, seeds }) => {
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

module.exports = { parseOptions, parseStartOptions };

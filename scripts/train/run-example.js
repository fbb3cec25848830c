const { GradringError } = require('../../dist/errors'); // not gradring itself, which needs TensorFlow.js
const { DataError } = require('./data/files');

/** Runs the main function of an example. Errors that the user can correct are shown without a stack. */
function runExample(main) {
  main().catch(error => {
    if (error instanceof GradringError) console.error(`${error.code}: ${error.message}`);
    else console.error(error instanceof DataError ? error.message : error);
    process.exit(1);
  });
}

module.exports = { runExample };

const { GradringError } = require('../..');
const { DataError } = require('./data/files');

/** Runs an example's main function; what the user can mend is told without a stack. */
function runExample(main) {
  main().catch(error => {
    if (error instanceof GradringError) console.error(`${error.code}: ${error.message}`);
    else console.error(error instanceof DataError ? error.message : error);
    process.exit(1);
  });
}

module.exports = { runExample };

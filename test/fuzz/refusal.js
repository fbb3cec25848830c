const { GradringError } = require('../../dist/errors');

/** What the code under test must not do. Whoever catches one has found a bug. */
class Violation extends Error {}

/** @param {boolean} holds @param {string} what Must hold. */
function demand(holds, what) {
  if (!holds) throw new Violation(what);
}

/**
 * Why a decoder refused, without the numbers, so that refusals can be counted by kind.
 *
 * @param {string} [code] The one that a refusal has.
 * @throws Violation for any other error.
 */
function refusalOf(error, code = 'ERR_PROTOCOL') {
  if (error instanceof Violation) throw error;
  if (!(error instanceof GradringError) || error.code !== code) {
    throw new Violation(`The decoder threw ${error?.stack ?? String(error)}`, { cause: error });
  }
  const { cause } = error;
  // The words of JSON.parse quote the input.
  const why = cause === undefined ? '' : ` (${cause instanceof SyntaxError ? cause.name : cause.message})`;
  return `${error.message}${why}`
    .replace(/holds \w+ values where \w+/, 'holds # values where #')
    .replace(/-?\d+/g, '#');
}

module.exports = { Violation, demand, refusalOf };

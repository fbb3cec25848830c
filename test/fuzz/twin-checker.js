const { referenceKernels } = require('../../dist/kernels/reference-kernels');
const { PayloadChecker } = require('./payload-checker');
const { demand } = require('./refusal');

/** The twin goes bit by bit. */
const LARGEST_MESSAGE = 2048;

/**
 * A {@link PayloadChecker} that also sees to it that the plain twin of the kernels decodes and refuses the same. Slow.
 */
class TwinChecker extends PayloadChecker {
  twin = new PayloadChecker(referenceKernels);

  check(message, format, tensors) {
    const found = super.check(message, format, tensors);
    if (message.length > LARGEST_MESSAGE) return found;
    const expected = this.twin.check(message, format, tensors);
    demand(
      found.outcome === expected.outcome && found.digest === expected.digest,
      `The kernels and their twin differ: ${found.outcome}, ${expected.outcome}.`,
    );
    return found;
  }
}

module.exports = { TwinChecker };

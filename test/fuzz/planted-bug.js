// Loaded before the fuzzer: a decoder that fails for some of the inputs, so that a test sees what the fuzzer makes of
// it.
const frame = require('../../dist/wire/frame');

const { decodeHeader } = frame;

frame.decodeHeader = (ring, bytes) => {
  if (bytes.length % 8 === 5) throw new TypeError('a planted bug');
  return decodeHeader(ring, bytes);
};

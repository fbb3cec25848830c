const { LabError } = require('./lab-error');

const UNITS = { kbit: 1e3, mbit: 1e6, gbit: 1e9 };
const FRAME_BYTES = 1_514; // what tbf counts of a full Ethernet frame

/**
 * The bits a second that a rate such as `100mbit`, `2.5gbit` or `none` means; undefined for `none`.
 *
 * @throws LabError
 */
function parseRate(text) {
  if (text === 'none') return undefined;
  const [, number, unit] = /^(\d+(?:\.\d+)?)(kbit|mbit|gbit)$/.exec(text) ?? [];
  const bitsPerSecond = Math.round(Number(number) * UNITS[unit]);
  if (!(bitsPerSecond >= 1e5 && bitsPerSecond <= 1e11)) {
    throw new LabError(`--rate is '${text}'; it must be like 10mbit, 1gbit or 2.5gbit (100kbit to 100gbit), or none.`);
  }
  return bitsPerSecond;
}

/**
 * The token bucket of one direction of a link: `{ bitsPerSecond, burstBytes, limitBytes }`.
 *
 * The burst is what a link that was idle lets through at once: 1 ms of the rate. With less the rate is lost when the
 * kernel's timer comes late; with more, messages that should take long go unshaped. Not below three frames, or nothing
 * would pass. The limit is what waits at most: 50 ms of the rate, but at least four of the 64 KiB pieces in which TCP
 * hands over its bytes, which the kernel would cut and drop one after the other.
 */
function shapeOf(bitsPerSecond) {
  const bytesPerMs = bitsPerSecond / 8 / 1000;
  return {
    bitsPerSecond,
    burstBytes: Math.round(Math.max(bytesPerMs, 3 * FRAME_BYTES)),
    limitBytes: Math.round(Math.max(50 * bytesPerMs, 4 * 65_536)),
  };
}

module.exports = { parseRate, shapeOf };

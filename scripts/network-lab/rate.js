const { LabError } = require('./lab-error');

const UNITS = { kbit: 1e3, mbit: 1e6, gbit: 1e9 };
const FRAME_BYTES = 1_514; // the size of a full Ethernet frame for tbf

/**
 * The bits a second of a rate such as `100mbit` or `2.5gbit`; undefined for `none`.
 *
 * @throws LabError
 */
function parseRate(text) {
  if (text === 'none') return undefined;
  const [, number, unit] = /^(\d+(?:\.\d+)?)(kbit|mbit|gbit)$/.exec(text) ?? [];
  const bitsPerSecond = Math.round(Number(number) * UNITS[unit]);
  if (!(bitsPerSecond >= 1e5 && bitsPerSecond <= 1e11)) {
    throw new LabError(
      `--rate is '${text}'; it must be a rate such as 10mbit, 1gbit or 2.5gbit (100kbit to 100gbit), or none.`,
    );
  }
  return bitsPerSecond;
}

/**
 * The token bucket of one direction of a link: `{ bitsPerSecond, burstBytes, limitBytes }`.
 *
 * The burst is what an idle link lets through at once: 1 ms of the rate. With a smaller burst, the rate is not reached
 * if the kernel's timer is late. With a larger one, long messages are not shaped. It has at least three frames, because
 * with less nothing would pass. The limit is the size of the queue: 50 ms of the rate, but at least four of the pieces
 * of 64 KiB that TCP hands over, because the kernel would split and drop such pieces.
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
